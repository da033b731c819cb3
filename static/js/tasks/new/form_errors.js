// Messages at the fields of the new-task form.

import { fill, sentences } from "../../format.js";

const form = document.getElementById("new-task");

/** What the server is asked about at every change; the rest is looked at when the form is sent. */
const LIVE =
  "#options, #target, #measuring, #data-rows, [data-field=seed], [data-field=priority], [data-field=worker], " +
  "[data-field=runtime], #script [data-field=entry], #script [data-field=arguments], #script [data-field=formats], " +
  "#script [data-field=sample_rate], #script [data-field=time_limit_s]";

/** Show `message` at the field of that name; at the form's end if there is none. */
export function showError(field, message) {
  const box = field ? boxOf(field) : null;
  const place = box ? [...box.querySelectorAll(":scope > .field__error")].at(-1) : document.getElementById("form-error");
  place.textContent = message;
  place.hidden = false;
  reveal(box);
  // in a row for an input: what gives its values, not how they are given
  const control =
    box?.querySelector("[data-for]:not([hidden]) :is(input, textarea)") ??
    box?.querySelector("input:not([type=hidden]), select, textarea");
  if (control && field !== "data" && field !== "plan") control.setAttribute("aria-invalid", "true");
}

/** The shown part of the form with this field, by the names in its place: script.entry, inputs.0.shape. */
function boxOf(field) {
  const parts = field.split(".");
  for (let end = parts.length; end > 0; end -= 1) {
    for (const name of [parts.slice(0, end).join("."), parts[end - 1]]) {
      // a model's and a script's files have the same names: the part that is shown counts
      const boxes = [...form.querySelectorAll(`[data-field="${CSS.escape(name)}"]`)];
      const box = boxes.find((each) => !each.closest("[data-of][hidden]"));
      if (box) return box;
    }
  }
  return null;
}

/** Bring an option into sight that is folded away, or which a search left out. */
function reveal(box) {
  if (box) box.hidden = false;
  for (let fold = box?.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.hidden = false;
    fold.open = true;
  }
}

/** Show each problem, {field, detail}, at its field. */
export function showProblems(problems) {
  const texts = new Map();
  for (const { field, detail } of problems) texts.set(field, [...(texts.get(field) ?? []), detail]);
  for (const [field, found] of texts) showError(field, sentences(found));
}

/** Say beside the button which options are set that the runtime cannot do. */
export function showImpossible(names) {
  const place = document.getElementById("form-impossible");
  place.hidden = names.length === 0;
  place.textContent = fill(place.dataset.text, { number: names.length, names: names.join(", ") });
}

export function showRowError(row, message) {
  const place = row.querySelector(".data-row__error");
  place.textContent = message;
  place.hidden = false;
  for (const control of row.querySelectorAll("input, textarea")) control.setAttribute("aria-invalid", "true");
}

/** Take all messages away; `scope` "live": only those that the server gives at every change. */
export function clearErrors(scope = "all") {
  clearParts(scope === "live" ? form.querySelectorAll(LIVE) : [form]);
}

/** Take away the messages of these parts of the form. */
export function clearParts(parts) {
  for (const part of parts) {
    // what is said of a chosen file holds as long as it is chosen
    for (const place of part.querySelectorAll(".field__error:not([data-about]), #form-error")) {
      place.hidden = true;
      place.textContent = "";
    }
    for (const control of part.querySelectorAll("[aria-invalid]:not([data-refused])")) control.removeAttribute("aria-invalid");
  }
}

/** Take the reader to the first message. Returns whether there is one. */
export function focusFirstError() {
  const isShown = (each) => each.checkVisibility?.() ?? !each.closest("[hidden]");
  const control = [...form.querySelectorAll("[aria-invalid]")].find(isShown);
  const place = [...form.querySelectorAll(".field__error:not([hidden]), #form-error:not([hidden])")].find(isShown);
  (control ?? place)?.focus({ preventScroll: true });
  place?.scrollIntoView({ block: "center" });
  return Boolean(place);
}

/**
 * Show why the server refused the request after its files were uploaded: at the row of the file
 * that the message names, else at its field.
 */
export function showRefusal({ field, message, errors }, rows) {
  if (errors.length) {
    showProblems(errors);
    return;
  }
  const row = field === "data" && rows.find(({ name, mode }) => mode === "file" && name && message.includes(`“${name}”`));
  if (row) showRowError(row.row, message);
  else showError(field, message);
}

/** What is missing in the part with the files, and wrong with their variables; shows it. */
export function checkFiles(model, rows) {
  const texts = document.getElementById("files").dataset;
  if (!model && !form.elements.model.dataset.taken) showError("model", texts.noModel);
  if (rows.length > Number(texts.filesLimit)) {
    showError("data", fill(texts.many, { limit: texts.filesLimit }));
  }
  const seen = new Set();
  for (const row of rows) {
    const text = rowError(row, seen, texts);
    if (text) showRowError(row.row, text);
    if (row.input) seen.add(row.input);
  }
}

function rowError({ mode, name, input, inFile, numbers }, seen, texts) {
  if (mode === "file") {
    if (!name) return texts.noFile;
    if (inFile) return null;
  }
  if (mode === "numbers" && !numbers) return texts.noNumbers;
  if (!input) return texts.noInput;
  if (/[:;]/.test(input)) return texts.badInput;
  return seen.has(input) ? texts.twice : null;
}
