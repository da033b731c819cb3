// The executed graph on the result page. Nothing is fetched before the user opens it.

import { fill } from "../format.js";
import { onSelect, select, selected } from "../profiles/result/selection.js";
import { DrawError, fetchContent, makeFrame } from "./frame.js";
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
/** The rows of the table by the names of the uploaded model's nodes. */
let modelRows = new Map();
/** The number of the last request; responses to earlier ones are dropped. */
let requestNumber = 0;

function showStatus(text, kind = "") {
  status.textContent = text;
  status.dataset.kind = kind;
}

function openFrame() {
  frame ??= makeFrame(stage, { address: dataset.viewer, title: dataset.title, onMessage });
  return frame;
}

/**
 * Run `work`, which opens something in the frame, and show its progress and errors.
 *
 * work(isCurrent): isCurrent() returns false once a later call has started
 */
async function attempt(work) {
  const number = ++requestNumber;
  part.dataset.state = "loading";
  part.setAttribute("aria-busy", "true");
  showStatus(dataset.loading);
  try {
    await work(() => number === requestNumber);
    if (number === requestNumber) part.dataset.state = "drawn";
  } catch (error) {
    if (number !== requestNumber) return;
    if (!(error instanceof DrawError)) throw error;
    part.dataset.state = view ? "drawn" : "failed";
    showStatus(error.message || dataset.failed, "problem");
    if (!view) closeFrame();
  } finally {
    if (number === requestNumber) part.removeAttribute("aria-busy");
  }
}

function closeFrame() {
  frame?.remove();
  frame = null;
  start.hidden = false;
}

/** Show a part of the graph: `{scope}`, or `{op}` for the part with that row of the table. */
function openGraph(query) {
  start.hidden = true;
  return attempt(async (isCurrent) => {
    const url = new URL(dataset.document, location.href);
    const [side, colour] = colours.value.split(":");
    const parameters = { ...query, side, colour };
    for (const [name, value] of Object.entries(parameters)) if (value) url.searchParams.set(name, value);
    openFrame();
    const text = await fetchContent(url, (response) => response.text());
    if (!isCurrent()) return;
    const next = makeView(JSON.parse(text).view);
    if (next.operators === 0) {
      closeFrame();
      start.hidden = true;
      showStatus(dataset.empty);
      showProblems(next);
      return;
    }
    await openFrame().open(new Blob([text]), "graph.netron");
    if (!isCurrent()) return;
    show(next);
  });
}

function show(next) {
  view = next;
  listBlocks();
  tools.hidden = false;
  sources.forEach((source) => (source.checked = source.value === "executed"));
  part.dataset.source = "executed";
  showLegend(find("legend"), view.scale);
  const address = (place) => writeAddress(location.href, { place, colour: colours.value }).href;
  showPath(find("path"), { path: view.path, whole: dataset.whole, address }, (scope) => openGraph({ scope }));
  history.replaceState(history.state, "", address(view.place));
  const isWhole = view.nodes === view.shown;
  showStatus(fill(isWhole ? dataset.drawn : dataset.collapsed, { nodes: view.nodes, operators: view.shown, total: view.operators }));
  showProblems(view);
  find("left-out").textContent = view.leftOut ? fill(dataset.leftOut, { number: view.leftOut }) : "";
  const node = view.nodeOf(selected());
  if (node !== undefined) frame.select(node);
}

/** Show which sections of the profile are damaged. */
function showProblems({ problems }) {
  const sections = problems.join(", ");
  find("damage").textContent = sections ? fill(dataset.damaged, { sections }) : "";
}

/** Mark the selected operator's node; if it is inside a closed block, open the block first. */
function follow(row) {
  if (view === null || part.dataset.source !== "executed") return;
  if (row === null) return;
  const node = view.nodeOf(row);
  if (node === undefined) openGraph({ op: String(row) });
  else frame.select(node);
}

/** List the blocks in a select, from which they can be opened without a mouse. */
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

/** Handle a message from the frame about an action of the user in it. */
function onMessage({ kind, node, file, name }) {
  if (kind === "left") (tools.hidden ? part : find("leave")).focus();
  if (kind === "saved" && file instanceof Blob && navigator.userActivation?.isActive !== false) save(file, name);
  if (node === undefined) return;
  if (part.dataset.source === "model" && kind === "selected" && modelRows.has(String(node))) select(modelRows.get(String(node)), "graph");
  if (view === null || part.dataset.source !== "executed") return;
  const { row, place } = view.target(String(node));
  if (kind === "selected") {
    if (place !== null) blocks.value = place;
    select(row, "graph");
  } else if (place !== null) {
    openGraph({ scope: place });
  }
}

/** Save a picture that the user exported in the frame, which cannot download files itself. */
function save(file, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = String(name).endsWith(".svg") ? "graph.svg" : "graph.png";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Show the uploaded model, or the reason why it is not available, and then keep the executed graph. */
function openModel() {
  return attempt(async (isCurrent) => {
    const page = new DOMParser().parseFromString(await fetchContent(dataset.model, (response) => response.text()), "text/html");
    if (!isCurrent()) return;
    const reason = page.getElementById("model-reason");
    if (reason) {
      sources.forEach((source) => (source.checked = source.value === "executed"));
      part.dataset.state = "drawn";
      showStatus(reason.textContent, "problem");
      return;
    }
    const section = page.getElementById("model-graph");
    const model = section.dataset;
    const { nodes = {}, scale } = JSON.parse(section.querySelector("#model-times")?.textContent ?? "{}");
    showStatus(model.loading);
    const file = await fetchContent(model.address, (response) => response.blob());
    if (!isCurrent()) return;
    part.dataset.source = "model";
    const { matched } = await openFrame().open(file.slice(Number(model.begin), Number(model.end)), "model.mge", nodes);
    if (!isCurrent()) return;
    modelRows = new Map(Object.entries(nodes).map(([name, [row]]) => [name, row]));
    if (scale) showLegend(find("legend"), scale);
    showStatus(matched ? dataset.modelDrawn : dataset.modelUnmatched);
  });
}

/** Open the part that the page's URL names, or the part with the selected operator. */
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
// a comparison shows another result or side: rows of the view that is drawn are no rows of it
document.addEventListener("graph:document", () => {
  view = null;
  find("model").hidden = !dataset.model;
  if (start.hidden) openFirst();
});

const initial = readAddress(location.search);
if ([...colours.options].some((option) => option.value === initial.colour)) colours.value = initial.colour;
if (initial.isOpen || dataset.open === "true") openFirst();
