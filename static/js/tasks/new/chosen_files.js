// Inspect each file when the user chooses it, and show its content or why it cannot be used.

import { bytesize, fill } from "../../format.js";
import { braces, inspectData, inspectModel, inspectProgram } from "./file_heads.js";
import { readRows } from "./file_rows.js";
import { runtimeKind } from "./where.js";

const form = document.getElementById("new-task");
const limits = document.getElementById("files").dataset;
const texts = JSON.parse(document.getElementById("file-words").textContent);

const INSPECTORS = { model: inspectModel, data: inspectData, program: inspectProgram };
/** Inspections by File: a Map from purpose and kind of runtime to the promised result. */
const inspections = new WeakMap();

/** Inspect files when they are chosen, and again when the runtime changes. `onChecked` is called afterwards. */
export function setUpChosenFiles(onChecked) {
  form.addEventListener("change", async ({ target }) => {
    const isRelevant = target.type === "file" || ["worker", "runtime", "where", "kind", "data-mode"].includes(target.name);
    if (!isRelevant && target !== form) return;
    await checkChosen();
    onChecked();
  });
}

/** Inspect all chosen files and show the results. */
export async function checkChosen() {
  const { model, program } = form.elements;
  const rows = readRows().filter(({ mode }) => mode === "file");
  await Promise.all([
    show(model, document.getElementById("model-status"), "model"),
    show(program, document.getElementById("program-status"), "program"),
    ...rows.map(({ row }) => show(row.querySelector("[name=data-file]"), row.querySelector(".data-row__status"), "data")),
  ]);
}

async function show(chooser, message, purpose) {
  const file = chooser.files[0];
  if (file) delete chooser.dataset.missingFile;
  const { problem, note } = file ? await describe(file, purpose) : { problem: "", note: chooseAgainNote(chooser) };
  // the user has chosen another file in the meantime
  if (chooser.files[0] !== file) return;
  message.textContent = problem || note;
  message.hidden = !message.textContent;
  message.classList.toggle("field__error", Boolean(problem));
  message.classList.toggle("field__hint", !problem);
  chooser.toggleAttribute("data-refused", Boolean(problem));
  if (problem) chooser.setAttribute("aria-invalid", "true");
  else chooser.removeAttribute("aria-invalid");
}

/** The note about a file that was chosen before the user left the page, and must be chosen again. */
function chooseAgainNote({ dataset }) {
  return dataset.missingFile ? fill(limits.again, { name: dataset.missingFile }) : "";
}

/** The messages about a file: {problem, note}, either may be empty. */
async function describe(file, purpose) {
  const problem = sizeOrNameProblem(file, purpose);
  if (problem) return { problem, note: "" };
  const result = await inspectOnce(file, purpose);
  if (!result.code) return { problem: "", note: noteOf(file, purpose, result) };
  const values = { ...result, name: file.name, count: result.count ?? "" };
  return { problem: fill(texts[result.code], values), note: "" };
}

/** The message about a file's size or name, or "". */
function sizeOrNameProblem(file, purpose) {
  const limit = Number(purpose === "data" ? limits.dataLimit : limits.modelLimit);
  if (file.size === 0) return fill(limits.empty, { name: file.name });
  if (file.size > limit) return fill(limits.large, { name: file.name, size: bytesize(file.size), limit: bytesize(limit) });
  const hasWrongSuffix = purpose === "data" && !/\.(npy|json|ppm|pgm)$/i.test(file.name);
  if (!hasWrongSuffix) return "";
  // the inspection has more specific messages for archives of arrays and pickles
  return /\.(npz|pkl|pickle)$/i.test(file.name) ? "" : fill(limits.suffix, { name: file.name });
}

/** Inspect a file, or return the cached result. */
async function inspectOnce(file, purpose) {
  // what the runtime is matters for data alone
  const kind = purpose === "data" ? runtimeKind() : "";
  const key = `${purpose} ${kind}`;
  if (!inspections.has(file)) inspections.set(file, new Map());
  const results = inspections.get(file);
  if (!results.has(key)) results.set(key, INSPECTORS[purpose](file, kind).catch(() => ({ code: "unreadable" })));
  const result = await results.get(key);
  if (result.code === "unreadable") results.delete(key);
  return result;
}

function noteOf(file, purpose, { arrays = [], isFortran }) {
  if (purpose === "program") return "";
  if (purpose === "model") return fill(texts.model, { size: bytesize(file.size) });
  const list = arrays.map(({ name, dtype, shape }) => `${name} ${dtype} ${braces(shape)}`.trim()).join(", ");
  return isFortran ? fill(texts.fortran, { arrays: list }) : list;
}
