// The form's part for a script: its program, its arguments, and the extra files in its folder.

import { acceptDrops } from "../../drops.js";
import { fill, bytesize } from "../../format.js";
import { readNumber } from "../../numbers.js";
import { setFile } from "./file_rows.js";
import { checkEntry, setUpEntry } from "./script_entry.js";

const form = document.getElementById("new-task");
const part = document.getElementById("script");
const list = document.getElementById("extra-files-list");

export const isScript = () => form.elements.kind.value === "script";

/**
 * The extra files: [{file, storedId, name}]; `file`: a chosen File, or null; `storedId`: the id of a stored file, or
 * null. A file with neither must be chosen again.
 */
let extraFiles = [];

/** Names of the profile files that a run writes, by the values of the checkboxes. */
const FILES = { timeline: "chrome_timeline.json", memory: "memory_flow.svg" };

/** Read the script in the API's format. */
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

/** The files of a script for the draft, by name only. */
export function scriptDraft() {
  const name = programName();
  return [...(name ? [{ kind: "model", name }] : []), ...extraFiles.map((extra) => ({ kind: "data", name: extra.name }))];
}

/** The files to upload, and the files that are already stored: {uploads, stored}. */
export function scriptFiles() {
  const { program } = form.elements;
  const file = program.files[0];
  const programId = program.dataset.storedId;
  return {
    uploads: [
      ...(file ? [{ file, kind: "model", input: "", option: "" }] : []),
      ...extraFiles.filter((extra) => extra.file).map((extra) => ({ file: extra.file, kind: "data", input: "", option: "" })),
    ],
    stored: [
      ...(programId ? [{ kind: "model", from_file: Number(programId) }] : []),
      ...extraFiles.filter((extra) => extra.storedId).map((extra) => ({ kind: "data", from_file: extra.storedId })),
    ],
  };
}

/** The extra files: [{name, taken}]; `taken`: {id, name} of a stored file, or null. */
export function listExtraFiles() {
  return extraFiles.map(({ name, storedId }) => ({ name, taken: storedId ? { id: storedId, name } : null }));
}

/** Validate the script's files; calls `showProblem` with field and message. */
export async function checkScript(showProblem) {
  const texts = part.dataset;
  const name = programName();
  if (!name) showProblem("model", texts.noProgram);
  else if (/\.mg[eb]$/i.test(name)) showProblem("model", fill(texts.model, { name }));
  else if (!/\.(py|zip)$/i.test(name)) showProblem("model", fill(texts.suffix, { name }));
  if (/\.zip$/i.test(name)) await checkEntry(texts, (text) => showProblem("entry", text));
  if (!chosenFormats().length) showProblem("formats", texts.noFormat);
  if (extraFiles.length > Number(texts.filesLimit)) showProblem("data", fill(texts.many, { limit: texts.filesLimit }));
  for (const { file } of extraFiles) {
    if (file) checkSize(file, Number(texts.dataLimit), (text) => showProblem("data", text));
  }
}

/** Fill this part with the script of an earlier task, whose arguments are one line. */
export function setScript({ entry, arguments: line, formats, sample_rate, profile_device, time_limit_s }) {
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

/** Add a stored file, {id, name}, to the extra files; without an id, the file must be chosen again. */
export function addStoredExtraFile({ id, name }) {
  add({ file: null, storedId: id, name });
}

/** Set up the part. `onKind` is called when the user changes the kind of the task. */
export function setUpScript(onKind) {
  const chooser = document.getElementById("extra-files");
  setUpEntry(form.elements.program);
  const addAll = (files) => files.forEach((file) => add({ file, storedId: null, name: file.name }));
  chooser.addEventListener("change", () => {
    addAll([...chooser.files]);
    chooser.value = "";
  });
  acceptDrops(form.querySelector("[data-drop=extra]"), addAll);
  acceptDrops(form.querySelector("[data-drop=program]"), (files) => setFile(form.elements.program, files[0]));
  for (const choice of form.elements.kind) {
    choice.addEventListener("change", () => {
      showKind();
      onKind();
    });
  }
  showKind();
}

/** Show the parts for this kind of task, and hide those of the other kind; without a device for scripts, hide the rest. */
function showKind() {
  for (const section of form.querySelectorAll("[data-task-kind]")) section.hidden = section.dataset.taskKind !== form.elements.kind.value;
  const isImpossible = isScript() && document.getElementById("script-rest").hidden;
  for (const id of ["where", "advanced", "start", "command"]) document.getElementById(id).hidden = isImpossible;
}

function chosenFormats() {
  return [...form.elements.formats].filter((box) => box.checked).map((box) => box.value);
}

/** The name of the program; empty if none is chosen. */
export function programName() {
  const { program } = form.elements;
  return program.files[0]?.name ?? program.dataset.storedName ?? "";
}

/** Add an extra file; it replaces one of the same name. */
function add(extra) {
  extraFiles = [...extraFiles.filter(({ name }) => name !== extra.name), extra];
  showExtraFiles();
}

function showExtraFiles() {
  const isMissing = ({ file, storedId }) => !file && !storedId;
  const chooser = document.getElementById("extra-files");
  list.hidden = extraFiles.length === 0;
  list.replaceChildren(
    ...extraFiles.map((extra) => {
      const row = document.createElement("li");
      const name = document.createElement("bdi");
      const size = document.createElement("span");
      const remove = document.createElement("button");
      row.className = "file-list__item";
      name.className = "file-list__name hostile";
      name.textContent = extra.name;
      size.className = "file-list__size";
      size.textContent = extra.file ? bytesize(extra.file.size) : "";
      remove.className = "button button--small";
      remove.type = "button";
      remove.textContent = part.dataset.remove;
      remove.setAttribute("aria-label", `${part.dataset.remove}: ${extra.name}`);
      remove.addEventListener("click", () => {
        extraFiles = extraFiles.filter((other) => other !== extra);
        showExtraFiles();
        chooser.focus();
      });
      row.append(name, size, remove);
      if (isMissing(extra)) {
        const error = document.createElement("p");
        error.className = "field__error";
        error.dataset.fileStatus = "";
        error.textContent = fill(part.dataset.again, extra);
        row.append(error);
      }
      return row;
    }),
  );
  const isIncomplete = extraFiles.some(isMissing);
  chooser.toggleAttribute("data-refused", isIncomplete);
  if (isIncomplete) chooser.setAttribute("aria-invalid", "true");
  else chooser.removeAttribute("aria-invalid");
  list.dispatchEvent(new Event("input", { bubbles: true }));
}

function checkSize(file, limit, showProblem) {
  const texts = part.dataset;
  if (file.size === 0) showProblem(fill(texts.empty, { name: file.name }));
  else if (file.size > limit) {
    showProblem(fill(texts.large, { name: file.name, size: bytesize(file.size), limit: bytesize(limit) }));
  }
}
