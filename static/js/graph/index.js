// The executed graph on the result page. Nothing is fetched before the reader opens it.

import { fill } from "../format.js";
import { onSelect, select, selected } from "../profiles/result/selection.js";
import { fetched, makeFrame, NotDrawn } from "./frame.js";
import { showLegend, showPath } from "./legend.js";
import { makeView, readAddress, writeAddress } from "./view.js";

const part = document.querySelector("#graph");
const { dataset } = part;
const find = (name) => part.querySelector(`[data-graph="${name}"]`);
const [stage, status, tools, start] = ["stage", "status", "tools", "start"].map(find);
const [colours, blocks, enter] = ["colour", "blocks", "enter"].map(find);
const sources = [...part.querySelectorAll("[name=graph-source]")];

let frame = null;
let view = null;
/** counts what was asked for: an answer that came too late is dropped */
let asked = 0;

function say(text, kind = "") {
  status.textContent = text;
  status.dataset.kind = kind;
}

function openFrame() {
  frame ??= makeFrame(stage, { address: dataset.viewer, title: dataset.title, heard });
  return frame;
}

/** Show what `work` opens, with all that can go wrong on the way told in place. */
async function attempt(work) {
  const number = ++asked;
  part.dataset.state = "loading";
  part.setAttribute("aria-busy", "true");
  say(dataset.loading);
  try {
    await work(() => number === asked);
    if (number === asked) part.dataset.state = "drawn";
  } catch (error) {
    if (number !== asked) return;
    if (!(error instanceof NotDrawn)) throw error;
    part.dataset.state = view ? "drawn" : "failed";
    say(error.message || dataset.failed, "problem");
    if (!view) closeFrame();
  } finally {
    if (number === asked) part.removeAttribute("aria-busy");
  }
}

function closeFrame() {
  frame?.remove();
  frame = null;
  start.hidden = false;
}

/** Show a part of the graph: `{scope}`, or `{op}` for that which shows a row of the table. */
function openGraph(question) {
  start.hidden = true;
  return attempt(async (isWanted) => {
    const url = new URL(dataset.document, location.href);
    const [side, colour] = colours.value.split(":");
    const parameters = { ...question, side, colour };
    for (const [name, value] of Object.entries(parameters)) if (value) url.searchParams.set(name, value);
    openFrame();
    const text = await fetched(url, (response) => response.text());
    if (!isWanted()) return;
    const next = makeView(JSON.parse(text).view);
    if (next.operators === 0) {
      closeFrame();
      start.hidden = true;
      say(dataset.empty);
      complain(next);
      return;
    }
    await openFrame().open(new Blob([text]), "graph.netron");
    if (!isWanted()) return;
    show(next);
  });
}

function show(next) {
  view = next;
  listBlocks();
  tools.hidden = false;
  sources.forEach((each) => (each.checked = each.value === "executed"));
  part.dataset.source = "executed";
  showLegend(find("legend"), view.scale);
  const address = (place) => writeAddress(location.href, { place, colour: colours.value }).href;
  showPath(find("path"), { path: view.path, whole: dataset.whole, address }, (scope) => openGraph({ scope }));
  history.replaceState(history.state, "", address(view.place));
  const isWhole = view.nodes === view.shown;
  say(fill(isWhole ? dataset.drawn : dataset.collapsed, { nodes: view.nodes, operators: view.shown, total: view.operators }));
  complain(view);
  find("left-out").textContent = view.leftOut ? fill(dataset.leftOut, { number: view.leftOut }) : "";
  const node = view.nodeOf(selected());
  if (node !== undefined) frame.select(node);
}

function complain({ problems }) {
  const sections = problems.join(", ");
  find("damage").textContent = sections ? fill(dataset.damaged, { sections }) : "";
}

/** Mark the selected operator's node; where a block hides it, open that first. */
function follow(row) {
  if (view === null || part.dataset.source !== "executed") return;
  if (row === null) return;
  const node = view.nodeOf(row);
  if (node === undefined) openGraph({ op: String(row) });
  else frame.select(node);
}

/** Blocks can be opened without a mouse too: from a list. */
function listBlocks() {
  blocks.replaceChildren(
    ...view.blocks.map(([name, place]) => {
      const option = new Option(place, place);
      option.dataset.node = name;
      return option;
    }),
  );
  find("block-tools").hidden = view.blocks.length === 0;
}

function heard({ kind, node, file, name }) {
  if (kind === "left") (tools.hidden ? part : find("leave")).focus();
  if (kind === "saved" && file instanceof Blob && navigator.userActivation?.isActive !== false) save(file, name);
  if (node === undefined) return;
  if (view === null || part.dataset.source !== "executed") return;
  const { row, place } = view.target(String(node));
  if (kind === "selected") {
    if (place !== null) blocks.value = place;
    select(row, "graph");
  } else if (place !== null) {
    openGraph({ scope: place });
  }
}

/** A picture that the reader asked for in the frame, which may save nothing itself. */
function save(file, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = String(name).endsWith(".svg") ? "graph.svg" : "graph.png";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Show the model that was uploaded, or say why not and stay with the executed graph. */
function openModel() {
  return attempt(async (isWanted) => {
    const page = new DOMParser().parseFromString(await fetched(dataset.model, (response) => response.text()), "text/html");
    if (!isWanted()) return;
    const reason = page.getElementById("model-reason");
    if (reason) {
      sources.forEach((each) => (each.checked = each.value === "executed"));
      part.dataset.state = "drawn";
      say(reason.textContent, "problem");
      return;
    }
    const model = page.getElementById("model-graph").dataset;
    say(model.loading);
    const file = await fetched(model.address, (response) => response.blob());
    if (!isWanted()) return;
    part.dataset.source = "model";
    await openFrame().open(file, "model.mge");
    if (isWanted()) say(dataset.modelDrawn);
  });
}

/** Open what the address names, or else the part with the selected operator. */
async function openFirst() {
  const { place } = readAddress(location.search);
  await openGraph({ scope: place });
  if (place === "") follow(selected());
}

start.hidden = false;
start.addEventListener("click", openFirst);
enter.addEventListener("click", () => openGraph({ scope: blocks.value }));
blocks.addEventListener("change", () => frame?.select(blocks.selectedOptions[0].dataset.node));
colours.addEventListener("change", () => openGraph({ scope: view?.place ?? "" }));
for (const source of sources) {
  source.addEventListener("change", () => {
    if (source.value === "model") openModel();
    else openGraph({ scope: view?.place ?? "" });
  });
}
onSelect((row, source) => {
  if (source !== "graph") follow(row);
});

const wanted = readAddress(location.search);
if ([...colours.options].some((option) => option.value === wanted.colour)) colours.value = wanted.colour;
if (wanted.isOpen || dataset.open === "true") openFirst();
