// What the form says of each file as soon as it is chosen: what it holds, or why it cannot be used.

import { bytesize, fill } from "../../format.js";
import { braces, lookAtData, lookAtModel, lookAtProgram } from "./file_heads.js";
import { readRows } from "./file_rows.js";
import { runtimeKind } from "./where.js";

const form = document.getElementById("new-task");
const limits = document.getElementById("files").dataset;
const { texts, looks } = JSON.parse(document.getElementById("file-words").textContent);

const LOOKS = { model: lookAtModel, data: lookAtData, program: lookAtProgram };
/** what was found in a File: a promise by purpose and kind of runtime */
const seen = new WeakMap();

/** Look at every file when it is chosen, and again when another runtime is. `onShown` is told. */
export function setUpChosenFiles(onShown) {
  form.addEventListener("change", async ({ target }) => {
    const isOfInterest = target.type === "file" || ["worker", "runtime", "where", "kind", "data-mode"].includes(target.name);
    if (!isOfInterest && target !== form) return;
    await checkChosen();
    onShown();
  });
}

/** Show what is known of all chosen files. Resolves when each has been looked at. */
export async function checkChosen() {
  const { model, program } = form.elements;
  const rows = readRows().filter(({ mode }) => mode === "file");
  await Promise.all([
    show(model, document.getElementById("model-about"), "model"),
    show(program, document.getElementById("program-about"), "program"),
    ...rows.map(({ row }) => show(row.querySelector("[name=data-file]"), row.querySelector(".data-row__about"), "data")),
  ]);
}

async function show(chooser, place, purpose) {
  const file = chooser.files[0];
  if (file) delete chooser.dataset.again;
  const { problem, note } = file ? await about(file, purpose) : { problem: "", note: askAgain(chooser) };
  // another file was chosen meanwhile
  if (chooser.files[0] !== file) return;
  place.textContent = problem || note;
  place.hidden = !place.textContent;
  place.classList.toggle("field__error", Boolean(problem));
  place.classList.toggle("field__hint", !problem);
  chooser.toggleAttribute("data-refused", Boolean(problem));
  if (problem) chooser.setAttribute("aria-invalid", "true");
  else chooser.removeAttribute("aria-invalid");
}

/** The words for a file that was chosen before the page was left. */
function askAgain({ dataset }) {
  return dataset.again ? fill(limits.again, { name: dataset.again }) : "";
}

/** What is to be said of a file: {problem, note}, both perhaps empty. */
async function about(file, purpose) {
  const problem = outside(file, purpose);
  if (problem) return { problem, note: "" };
  const found = await lookOnce(file, purpose);
  if (!found.code) return { problem: "", note: noteOf(file, purpose, found) };
  const values = { ...found, name: file.name, what: looks[found.what] ?? "", count: found.count ?? "" };
  return { problem: fill(texts[found.code], values), note: "" };
}

/** What is wrong with a file's size or name. */
function outside(file, purpose) {
  const limit = Number(purpose === "data" ? limits.dataLimit : limits.modelLimit);
  if (file.size === 0) return fill(limits.empty, { name: file.name });
  if (file.size > limit) return fill(limits.large, { name: file.name, size: bytesize(file.size), limit: bytesize(limit) });
  const isData = purpose === "data" && !/\.(npy|json|ppm|pgm)$/i.test(file.name);
  if (!isData) return "";
  // an archive of arrays and a pickle have better words than a wrong suffix
  return /\.(npz|pkl|pickle)$/i.test(file.name) ? "" : fill(limits.suffix, { name: file.name });
}

async function lookOnce(file, purpose) {
  // a script's program is none of a runtime's business
  const kind = purpose === "program" ? "" : runtimeKind();
  const key = `${purpose} ${kind}`;
  if (!seen.has(file)) seen.set(file, new Map());
  const known = seen.get(file);
  if (!known.has(key)) known.set(key, LOOKS[purpose](file, kind).catch(() => ({ code: "unreadable" })));
  const found = await known.get(key);
  if (found.code === "unreadable") known.delete(key);
  return found;
}

function noteOf(file, purpose, { arrays = [], isFortran }) {
  if (purpose === "program") return "";
  if (purpose === "model") return fill(texts.model, { size: bytesize(file.size) });
  const words = arrays.map(({ name, dtype, shape }) => `${name} ${dtype} ${braces(shape)}`.trim()).join(", ");
  return isFortran ? fill(texts.fortran, { arrays: words }) : words;
}
