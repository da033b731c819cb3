// The form's part for a script: its program, how it is called, and the files beside it.

import { acceptDrops } from "../../drops.js";
import { fill, bytesize } from "../../format.js";
import { readNumber } from "../../numbers.js";
import { give } from "./file_rows.js";
import { checkEntry, setUpEntry } from "./script_entry.js";

const form = document.getElementById("new-task");
const part = document.getElementById("script");
const list = document.getElementById("beside-list");

export const isScript = () => form.elements.kind.value === "script";

/** What lies beside the program: [{file, taken, name}]; `file` a File, or `taken` a stored one's id. */
let beside = [];

/** What a run records, by the boxes' values. */
const FILES = { timeline: "chrome_timeline.json", memory: "memory_flow.svg" };

/** How the program is called, as the server takes it. */
export function readScript() {
  const { entry, arguments: line, sample_rate, profile_device, time_limit_s } = form.elements;
  return {
    entry: entry.value.trim(),
    arguments: line.value,
    formats: chosenFormats().map((name) => FILES[name]),
    sample_rate: readNumber(sample_rate.value.trim() || "0"),
    profile_device: profile_device.checked,
    time_limit_s: readNumber(time_limit_s.value.trim() || "0"),
  };
}

/** The files of a script that is still being described. */
export function scriptDraft() {
  const name = programName();
  return [...(name ? [{ kind: "model", name }] : []), ...beside.map((each) => ({ kind: "data", name: each.name }))];
}

/** Those that go to storage, and those that storage holds: {uploads, taken}. */
export function scriptFiles() {
  const { program } = form.elements;
  const file = program.files[0];
  const stored = program.dataset.taken;
  return {
    uploads: [
      ...(file ? [{ file, kind: "model", input: "", option: "" }] : []),
      ...beside.filter((each) => each.file).map((each) => ({ file: each.file, kind: "data", input: "", option: "" })),
    ],
    taken: [
      ...(stored ? [{ kind: "model", from_file: Number(stored) }] : []),
      ...beside.filter((each) => each.taken).map((each) => ({ kind: "data", from_file: each.taken })),
    ],
  };
}

/** The files beside the program: [{name, taken}], `taken` {id, name} of one that is stored. */
export function besideFiles() {
  return beside.map(({ name, taken }) => ({ name, taken: taken ? { id: taken, name } : null }));
}

/** What is wrong with the files before the server is asked: calls `tell` with field and words. */
export async function checkScript(tell) {
  const texts = part.dataset;
  const name = programName();
  if (!name) tell("model", texts.noProgram);
  else if (/\.mg[eb]$/i.test(name)) tell("model", fill(texts.model, { name }));
  else if (!/\.(py|zip)$/i.test(name)) tell("model", fill(texts.suffix, { name }));
  if (/\.zip$/i.test(name)) await checkEntry(texts, (text) => tell("entry", text));
  if (!chosenFormats().length) tell("formats", texts.noFormat);
  if (beside.length > Number(texts.filesLimit)) tell("data", fill(texts.many, { limit: texts.filesLimit }));
  for (const each of beside) {
    if (each.file) tellSize(each.file, Number(texts.dataLimit), (text) => tell("data", text));
  }
}

/** Fill the part with the script of an earlier task, arguments as one line. */
export function takeScript({ entry, arguments: line, formats, sample_rate, profile_device, time_limit_s }) {
  const { elements } = form;
  elements.entry.value = entry ?? "";
  elements.arguments.value = line;
  elements.sample_rate.value = String(sample_rate);
  elements.profile_device.checked = profile_device;
  elements.time_limit_s.value = time_limit_s || "";
  for (const box of elements.formats) {
    box.checked = formats.includes(FILES[box.value]);
  }
}

/** Let a stored file {id, name} be the program, until another one is chosen. */
export function takeProgram({ id, name }) {
  const { program } = form.elements;
  const place = document.getElementById("program-taken");
  program.dataset.taken = id;
  program.dataset.takenName = name;
  place.textContent = fill(place.dataset.text, { name });
  program.addEventListener("change", () => {
    delete program.dataset.taken;
    delete program.dataset.takenName;
    place.textContent = "";
  });
}

/** Let a stored file {id, name} lie beside the program. */
export function takeBeside({ id, name }) {
  add({ file: null, taken: id, name });
}

/** `onKind` is called when the reader chooses the other kind. */
export function setUpScript(onKind) {
  const chooser = document.getElementById("beside");
  setUpEntry(form.elements.program);
  const addAll = (files) => files.forEach((file) => add({ file, taken: null, name: file.name }));
  chooser.addEventListener("change", () => {
    addAll([...chooser.files]);
    chooser.value = "";
  });
  acceptDrops(form.querySelector("[data-drop=beside]"), addAll);
  acceptDrops(form.querySelector("[data-drop=program]"), (files) => give(form.elements.program, files[0]));
  for (const choice of form.elements.kind) {
    choice.addEventListener("change", () => {
      showKind();
      onKind();
    });
  }
  showKind();
}

/** Show the parts of what is profiled, and hide those of the other kind, or what no device takes. */
export function showKind() {
  for (const each of form.querySelectorAll("[data-of]")) each.hidden = each.dataset.of !== form.elements.kind.value;
  const isImpossible = isScript() && document.getElementById("script-rest").hidden;
  for (const id of ["where", "command"]) document.getElementById(id).hidden = isImpossible;
}

function chosenFormats() {
  return [...form.elements.formats].filter((box) => box.checked).map((box) => box.value);
}

/** The program's name, empty while none is chosen. */
export function programName() {
  const { program } = form.elements;
  return program.files[0]?.name ?? program.dataset.takenName ?? "";
}

/** A file of the same name takes the place of the one before. */
function add(found) {
  beside = [...beside.filter((each) => each.name !== found.name), found];
  showBeside();
}

function showBeside() {
  list.hidden = beside.length === 0;
  list.replaceChildren(
    ...beside.map((each) => {
      const row = document.createElement("li");
      const name = document.createElement("bdi");
      const size = document.createElement("span");
      const remove = document.createElement("button");
      row.className = "wanted__file";
      name.className = "wanted__name hostile";
      name.textContent = each.name;
      size.className = "wanted__size";
      size.textContent = each.file ? bytesize(each.file.size) : "";
      remove.className = "button button--small";
      remove.type = "button";
      remove.textContent = part.dataset.remove;
      remove.setAttribute("aria-label", `${part.dataset.remove}: ${each.name}`);
      remove.addEventListener("click", () => {
        beside = beside.filter((other) => other !== each);
        showBeside();
        document.getElementById("beside").focus();
      });
      row.append(name, size, remove);
      return row;
    }),
  );
  list.dispatchEvent(new Event("input", { bubbles: true }));
}

function tellSize(file, limit, tell) {
  const texts = part.dataset;
  if (file.size === 0) tell(fill(texts.empty, { name: file.name }));
  else if (file.size > limit) {
    tell(fill(texts.large, { name: file.name, size: bytesize(file.size), limit: bytesize(limit) }));
  }
}
