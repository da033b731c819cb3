// A trace or the timeline of a profile in Perfetto: the page fetches it, or a cut of a trace, and passes it to the
// frame.

import { bytesize, fill } from "../../format.js";
import { DrawError, fetchContent } from "../../graph/frame.js";
import { bindTimeline } from "../../shortcuts.js";
import { queryToRange, rangeToQuery, shortTime } from "./estimate.js";
import { makeFrame, ViewerError } from "./frame.js";
import { repairTrace } from "./repair.js";
import { makeOverview } from "./overview.js";

const part = document.querySelector("#timeline");
const { dataset } = part;
const find = (name) => part.querySelector(`[data-timeline="${name}"]`);
const [stage, status, retryButton] = ["stage", "status", "again"].map(find);
/** Characters that Perfetto does not accept in titles. */
const NOT_IN_TITLES = /[^A-Za-z0-9.\-_ ]/g;

/** The trace cannot be fetched. message: in the user's language; canRetry: whether a retry may help. */
class FetchError extends Error {
  constructor(message, canRetry) {
    super(message);
    this.canRetry = canRetry;
  }
}

/** The number of the last request; a later request replaces those in flight. */
let requestNumber = 0;
let frame = null;
let retry = openFile;

function showStatus(text, kind = "") {
  status.textContent = text;
  status.dataset.kind = kind;
}

async function fetchFromStorage(address) {
  let response;
  try {
    response = await fetch(address);
    if (response.ok) return await response.arrayBuffer();
  } catch {
    throw new FetchError(dataset.away, true);
  }
  if (response.status === 401) location.reload();
  if (response.status === 404) throw new FetchError(dataset.missing, false);
  throw new FetchError(dataset.away, true);
}

/** Fetch the file: {buffer, done}, with `done` the status text afterwards. A truncated file is repaired. */
async function fetchFile() {
  if (dataset.refused) throw new FetchError(dataset.refused, false);
  showStatus(fill(dataset.loadingFile, { size: bytesize(Number(dataset.size)) }));
  const buffer = await fetchFromStorage(dataset.file);
  return { buffer: "isCut" in dataset ? repairTrace(buffer) : buffer, done: "" };
}

/** Fetch a cut of the trace, or for null the whole trace: {buffer, done}. */
async function fetchCut(range) {
  showStatus(dataset.loadingCut);
  return fetchContent(dataset.cut + rangeToQuery(range), async (response) => {
    const buffer = await response.arrayBuffer();
    if (range === null) return { buffer, done: "" };
    const events = response.headers.get("X-Trace-Events") ?? "";
    const [begin, end] = [range.begin_s, range.end_s].map((time) =>
      shortTime(time, range.end_s - range.begin_s),
    );
    return { buffer, done: fill(dataset.shown, { begin, end, events }) };
  });
}

/** Draw the trace that `load` fetches, and show the progress or the error. */
async function draw(load) {
  const number = ++requestNumber;
  retry = () => draw(load);
  part.dataset.state = "loading";
  part.setAttribute("aria-busy", "true");
  retryButton.hidden = true;
  frame?.remove();
  frame = makeFrame(stage, { address: dataset.viewer, title: dataset.title });
  const ownFrame = frame;
  try {
    const { buffer, done } = await load();
    if (number !== requestNumber) return;
    showStatus(dataset.drawing);
    await ownFrame.open(buffer, dataset.name.replace(NOT_IN_TITLES, " "));
    if (number !== requestNumber) return;
    part.dataset.state = "drawn";
    showStatus(done);
  } catch (error) {
    if (number !== requestNumber) return;
    ownFrame.remove();
    part.dataset.state = "failed";
    if (error instanceof FetchError) showProblem(error.message, error.canRetry);
    else if (error instanceof DrawError) showProblem(error.message || dataset.unanswered, true);
    else if (error instanceof ViewerError) showProblem(dataset.failed, true);
    else throw error;
  } finally {
    if (number === requestNumber) part.removeAttribute("aria-busy");
  }
}

function showProblem(message, canRetry) {
  showStatus(message, "problem");
  retryButton.hidden = !canRetry;
}

function openFile() {
  form.closest("details").open = false;
  draw(fetchFile);
}

function openCut(range) {
  form.closest("details").open = false;
  history.replaceState(null, "", location.pathname + rangeToQuery(range));
  draw(() => fetchCut(range));
}

retryButton.addEventListener("click", () => retry());
bindTimeline((command) => frame?.move(command));
const form = part.querySelector("#overview");
const overview = form && makeOverview(form, { show: openCut, openFile });
const range = overview?.begin(queryToRange(location.search)) ?? null;
draw(() => fetchCut(range));
