// A trace on Perfetto's timeline: the page fetches the file and hands it to the frame.

import { bytesize, fill } from "../format.js";
import { fetched } from "../result/graph_fetch.js";
import { NotDrawn } from "../result/graph_frame.js";
import { makeFrame, NotShown } from "./frame.js";
import { mended } from "./mend.js";

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

function say(text, kind = "") {
  status.textContent = text;
  status.dataset.kind = kind;
}

async function fromStorage(address) {
  let response = null;
  try {
    response = await fetch(address, { credentials: "omit" });
    if (response.ok) return await response.arrayBuffer();
  } catch {
    throw new Refused(dataset.away, true);
  }
  if (response.status === 404) throw new Refused(dataset.missing, false);
  throw new Refused(dataset.away, true);
}

async function show() {
  part.dataset.state = "loading";
  part.setAttribute("aria-busy", "true");
  again.hidden = true;
  say(dataset.loading);
  let frame = null;
  try {
    const told = await fetched(dataset.file, (response) => response.json());
    if (told.reason) throw new Refused(told.reason, false);
    say(fill(dataset.loadingFile, { size: bytesize(told.size_bytes) }));
    frame = makeFrame(stage, { address: dataset.viewer, title: dataset.title });
    const buffer = await fromStorage(told.address);
    say(dataset.drawing);
    await frame.open(told.is_cut ? mended(buffer) : buffer, dataset.name.replace(LATIN, " "));
    part.dataset.state = "drawn";
    say("");
  } catch (error) {
    frame?.remove();
    part.dataset.state = "failed";
    if (error instanceof Refused) refuse(error.message, error.mayHelp);
    else if (error instanceof NotDrawn) refuse(error.message || dataset.unanswered, true);
    else if (error instanceof NotShown) refuse(dataset.failed, true);
    else throw error;
  } finally {
    part.removeAttribute("aria-busy");
  }
}

function refuse(words, mayHelp) {
  say(words, "problem");
  again.hidden = !mayHelp;
}

again.addEventListener("click", show);
show();
