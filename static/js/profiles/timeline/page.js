// A trace on Perfetto's timeline: the page fetches it, or a part of it, and hands it to the frame.

import { bytesize, fill } from "../../format.js";
import { fetched, NotDrawn } from "../../graph/frame.js";
import { answered, question, shortTime } from "./estimate.js";
import { makeFrame, NotShown } from "./frame.js";
import { mended } from "./mend.js";
import { makeOverview } from "./overview.js";

const part = document.querySelector("#timeline");
const { dataset } = part;
const find = (name) => part.querySelector(`[data-timeline="${name}"]`);
const [stage, status, again] = ["stage", "status", "again"].map(find);
/** that of Perfetto's own lettering; it takes no other letters */
const LATIN = /[^A-Za-z0-9.\-_ ]/g;

/** Why there is nothing to see, in the reader's words; `mayHelp`: whether to try once more. */
class Refused extends Error {
  constructor(words, mayHelp) {
    super(words);
    this.mayHelp = mayHelp;
  }
}

/** What comes later takes the place of what is still on its way. */
let turn = 0;
let frame = null;
let latest = openFile;

function say(text, kind = "") {
  status.textContent = text;
  status.dataset.kind = kind;
}

async function fromStorage(address) {
  let response = null;
  try {
    response = await fetch(address);
    if (response.ok) return await response.arrayBuffer();
  } catch {
    throw new Refused(dataset.away, true);
  }
  if (response.status === 401) location.reload();
  if (response.status === 404) throw new Refused(dataset.missing, false);
  throw new Refused(dataset.away, true);
}

/** The file as it was opened: {buffer, done}. */
async function wholeFile() {
  if (dataset.refused) throw new Refused(dataset.refused, false);
  say(fill(dataset.loadingFile, { size: bytesize(Number(dataset.size)) }));
  const buffer = await fromStorage(dataset.file);
  return { buffer: "isCut" in dataset ? mended(buffer) : buffer, done: "" };
}

/** A part of the trace, all of it for null. */
async function cutOf(range) {
  say(dataset.loadingCut);
  return fetched(dataset.cut + question(range), async (response) => {
    const buffer = await response.arrayBuffer();
    if (range === null) return { buffer, done: "" };
    const events = response.headers.get("X-Trace-Events") ?? "";
    const [begin, end] = [range.begin_s, range.end_s].map((at) =>
      shortTime(at, range.end_s - range.begin_s),
    );
    return { buffer, done: fill(dataset.shown, { begin, end, events }) };
  });
}

async function draw(load) {
  const mine = ++turn;
  latest = () => draw(load);
  part.dataset.state = "loading";
  part.setAttribute("aria-busy", "true");
  again.hidden = true;
  frame?.remove();
  frame = makeFrame(stage, { address: dataset.viewer, title: dataset.title });
  const own = frame;
  try {
    const { buffer, done } = await load();
    if (mine !== turn) return;
    say(dataset.drawing);
    await own.open(buffer, dataset.name.replace(LATIN, " "));
    if (mine !== turn) return;
    part.dataset.state = "drawn";
    say(done);
  } catch (error) {
    if (mine !== turn) return;
    own.remove();
    part.dataset.state = "failed";
    if (error instanceof Refused) refuse(error.message, error.mayHelp);
    else if (error instanceof NotDrawn) refuse(error.message || dataset.unanswered, true);
    else if (error instanceof NotShown) refuse(dataset.failed, true);
    else throw error;
  } finally {
    if (mine === turn) part.removeAttribute("aria-busy");
  }
}

function refuse(words, mayHelp) {
  say(words, "problem");
  again.hidden = !mayHelp;
}

function openFile() {
  draw(wholeFile);
}

function openCut(range) {
  history.replaceState(null, "", location.pathname + question(range));
  draw(() => cutOf(range));
}

again.addEventListener("click", () => latest());
const form = part.querySelector("#overview");
if (form === null) {
  openFile();
} else {
  const overview = makeOverview(form, { show: openCut, openFile });
  const range = overview.begin(answered(location.search));
  draw(() => cutOf(range));
}
