// Inspect each file when the user chooses it, and show its content or why it cannot be used. The inputs of
// the model are read from its file, and what the rows give is compared with them.

import { bytesize, fill, sentences } from "../../format.js";
import { braces, inspectData, inspectModel, inspectProgram } from "./file_heads.js";
import { addRow, readRows, setInput } from "./file_rows.js";
import { candidatesFor, compareInput, literalDtype, literalShape, parseShape } from "./model_inputs.js";
import { readOptions } from "./option_form.js";
import { runtimeKind } from "./where.js";

/** Limit on reading the inputs of a model. */
const READ_MS = 4000;
/** Inputs that are offered for a file with another name. */
const MAX_OFFERED = 4;

const form = document.getElementById("new-task");
const limits = document.getElementById("files").dataset;
const texts = JSON.parse(document.getElementById("file-words").textContent);
const list = document.getElementById("model-inputs");

const INSPECTORS = { model: inspectWithInputs, data: inspectData, program: inspectProgram };
/** Inspections by File: a Map from purpose and kind of runtime to the promised result. */
const inspections = new WeakMap();
/** Promised results of stored models, by address. */
const stored = new Map();
/** The last call of `checkChosen`; an earlier one that ends later shows nothing. */
let latest = Promise.resolve();
let checkNumber = 0;

/** Inspect files when they are chosen, and again when the runtime or an input changes. `onChecked` is called afterwards. */
export function setUpChosenFiles(onChecked) {
  const check = async () => {
    await checkChosen();
    onChecked();
  };
  form.addEventListener("change", ({ target }) => {
    const isRelevant = target.type === "file" || ["worker", "runtime", "where", "kind", "data-mode", "data-dtype"].includes(target.name);
    if (isRelevant || target === form) check();
  });
  form.addEventListener("input", ({ target }) => {
    if (target.closest("#data-rows") || target.name === "batch_size") check();
  });
}

/** Inspect all chosen files and show the results. */
export function checkChosen() {
  checkNumber += 1;
  latest = check(checkNumber);
  return latest;
}

async function check(number) {
  const { model, program, "other-model": otherModel } = form.elements;
  const rows = readRows();
  const [ofModel, ofOther, ofProgram, ...ofRows] = await Promise.all([
    describe(model, "model"),
    describe(otherModel, "model"),
    describe(program, "program"),
    ...rows.map(({ row, mode }) => (mode === "file" ? describe(row.querySelector("[name=data-file]"), "data") : { arrays: [] })),
  ]);
  if (number !== checkNumber) return latest;
  show(document.getElementById("model-status"), ofModel, model);
  // without it, the task would be no comparison
  const { missingFile } = otherModel.dataset;
  show(document.getElementById("other-model-status"), missingFile ? { problem: fill(limits.againOrRemove, { name: missingFile }) } : ofOther, otherModel);
  document.getElementById("remove-other-model").hidden = !missingFile && !otherModel.files.length;
  show(document.getElementById("program-status"), ofProgram, program);
  const given = rows.map((row, i) => givenBy(row, ofRows[i].arrays));
  rows.forEach((row, i) => showRow(row, ofRows[i], given[i], ofModel.inputs, given));
  showInputs(ofModel.inputs, rows, given);
  return undefined;
}

/** Show a problem or a note; `control` is the one with the problem. */
function show(message, { problem = "", note = "", isWarning = false }, control) {
  message.textContent = problem || note;
  message.hidden = !message.textContent;
  message.classList.toggle("field__error", Boolean(problem));
  message.classList.toggle("field__hint", !problem);
  message.classList.toggle("field__hint--warning", isWarning);
  for (const other of message.closest("[data-field], .data-row").querySelectorAll("[data-refused]")) {
    other.removeAttribute("data-refused");
    other.removeAttribute("aria-invalid");
  }
  if (!problem) return;
  const fold = message.closest("details");
  if (fold) fold.open = true;
  control.setAttribute("data-refused", "");
  control.setAttribute("aria-invalid", "true");
}

// -- files ------------------------------------------------------------------------------------------

/** Describe the file of a file input: {problem, note, inputs, arrays}; `inputs`: of a model, if they are known. */
async function describe(chooser, purpose) {
  const file = chooser.files[0];
  if (!file && chooser.dataset.storedAddress && purpose === "model") return describeStored(chooser.dataset);
  // a file that was chosen before the user left the page must be chosen again
  if (!file) return { note: chooser.dataset.missingFile ? fill(limits.again, { name: chooser.dataset.missingFile }) : "" };
  delete chooser.dataset.missingFile;
  const problem = sizeOrNameProblem(file, purpose);
  if (problem) return { problem };
  const result = await inspectOnce(file, purpose);
  if (!result.code) return { note: noteOf(file, purpose, result), inputs: result.inputs, arrays: result.arrays };
  return { problem: fill(texts[result.code], { ...result, name: file.name, count: result.count ?? "" }) };
}

/** Describe the stored model of an earlier task: only the parts with its inputs are fetched. */
async function describeStored({ storedAddress: address, storedSize }) {
  const size = Number(storedSize);
  if (!stored.has(address)) stored.set(address, readInWorker({ address, size }));
  const result = await stored.get(address);
  return { note: noteOf({ size }, "model", result), inputs: result.inputs, arrays: undefined };
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

async function inspectWithInputs(file) {
  const result = await inspectModel(file);
  return result.code ? result : readInWorker(file);
}

/** Read the inputs of a model, as `model_worker.js`, so that a hostile file cannot block the page. */
function readInWorker(model) {
  return new Promise((resolve) => {
    const worker = new Worker(limits.reader, { type: "module" });
    const end = (result) => {
      window.clearTimeout(timer);
      worker.terminate();
      resolve(result);
    };
    const timer = window.setTimeout(() => end({ isUnreadable: true }), READ_MS);
    worker.addEventListener("message", ({ data }) => end(data));
    worker.addEventListener("error", () => end({ isUnreadable: true }));
    worker.postMessage(model);
  });
}

function noteOf(file, purpose, { arrays = [], isFortran, isOtherFormat, isUnreadable }) {
  if (purpose === "program") return "";
  if (purpose === "model") {
    const unknown = isOtherFormat ? texts.other_format : isUnreadable && texts.unread;
    return sentences([fill(texts.model, { size: bytesize(file.size) }), unknown]);
  }
  const types = arrays.map(typeOf).join(", ");
  return isFortran ? fill(texts.fortran, { arrays: types }) : types;
}

const typeOf = ({ name, dtype, shape }) => `${name} ${dtype} ${braces(shape)}`.trim();

// -- inputs of the model ----------------------------------------------------------------------------

/** What a row gives: [{name, dtype, shape, isLiteral}]; several for a JSON file. arrays: of its file. */
function givenBy({ mode, input, storedArrays, numbers, shape, dtype }, arrays) {
  if (mode === "random") return [{ name: input, dtype, shape: parseShape(shape) }];
  if (mode === "numbers") {
    return [{ name: input, dtype: numbers && literalDtype(numbers), shape: numbers ? literalShape(numbers) : null, isLiteral: true }];
  }
  return (arrays ?? storedArrays).map((array) => ({ ...array, name: array.name || input }));
}

/** Show what is in a row, and whether it matches the model's inputs, if they are known. */
function showRow({ row, mode, name, inFile }, result, given, inputs, all) {
  const named = given.filter((array) => array.name);
  const batch = Number(readOptions().options.batch_size) || 0;
  const findings = inputs ? named.map((array) => compareInput(array, inputs, batch)).filter(Boolean) : [];
  const problems = findings.filter(({ isProblem }) => isProblem);
  const tell = ({ code, ...values }) => fill(texts[code], values);
  const isMatch = inputs && named.length > 0 && !findings.length && result.note;
  const control = problems.some(({ code }) => code === "no_such_input") && !inFile ? "[name=data-input]" : `[data-for=${mode}] :is(input, textarea)`;
  show(
    row.querySelector(".data-row__status"),
    {
      problem: result.problem || sentences(problems.map(tell)),
      note: isMatch ? fill(texts.matches, { arrays: result.note }) : [result.note, ...findings.map(tell)].filter(Boolean).join(" · "),
      isWarning: findings.length > 0 && !problems.length,
    },
    row.querySelector(result.problem ? "[name=data-file]" : control),
  );
  const isUnnamed = given.length > 0 && !named.length;
  const isOffered = inputs && !inFile && !result.problem && (isUnnamed || problems.some(({ code }) => code === "no_such_input"));
  const taken = new Set(all.flat().map((array) => array.name));
  const free = isOffered ? candidatesFor(given[0], inputs.filter((input) => !taken.has(input.name))) : [];
  offer(row, mode === "file" ? name : "", free.slice(0, MAX_OFFERED));
}

/** Offer to use what a row gives for one of these inputs. */
function offer(row, name, inputs) {
  const box = row.querySelector(".data-row__uses");
  box.hidden = inputs.length === 0;
  box.replaceChildren(
    ...inputs.map(({ name: input }) => {
      const text = fill(name ? box.dataset.file : box.dataset.values, { name, input });
      return makeButton(text, () => setInput(row, input));
    }),
  );
}

/** List the inputs of the model, and what each of them gets. inputs: undefined if they are not known. */
function showInputs(inputs, rows, given) {
  document.getElementById("model-input-names").replaceChildren(...(inputs ?? []).map(({ name }) => new Option("", name)));
  list.hidden = !inputs;
  list.replaceChildren(
    ...(inputs ?? []).map((input) => {
      const item = document.getElementById("model-input").content.cloneNode(true).firstElementChild;
      const source = rows[given.findIndex((arrays) => arrays.some(({ name }) => name === input.name))];
      item.querySelector(".model-input__name").textContent = input.name;
      item.querySelector(".model-input__type").textContent = `${input.dtype} ${braces(input.shape)}`;
      const text = item.querySelector(".model-input__source");
      if (source) text.textContent = source.mode === "file" ? source.name : source.row.querySelector("[name=data-mode]").selectedOptions[0].text;
      else {
        const button = makeButton(list.dataset.give, () => setInput(addRow(), input.name));
        button.setAttribute("aria-label", `${list.dataset.give}: ${input.name}`);
        item.append(button);
      }
      return item;
    }),
  );
}

function makeButton(text, onClick) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button button--small hostile";
  button.textContent = text;
  button.addEventListener("click", onClick);
  return button;
}
