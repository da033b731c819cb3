// The options in the form: their values, which of them cannot be chosen, and the search.

import { fill } from "../../format.js";
import { readNumber } from "../../numbers.js";

const part = document.getElementById("options");
const search = document.getElementById("option-search");
const boxes = [...part.querySelectorAll("[data-option]")];
const groups = [...part.querySelectorAll("details[data-group]")];
const count = document.getElementById("option-found");

/**
 * What is set: `options` by name, `files` [{option, file, stored}], and the names of options whose
 * file is `missing`. `stored`: where else than from `file` it comes, as the server takes it.
 *
 * What the runtime cannot do is among them as long as it is set: the server refuses it in words.
 */
export function readOptions() {
  const options = {};
  for (const control of part.querySelectorAll("[data-kind]")) {
    if (control.type === "checkbox") {
      if (control.checked !== control.defaultChecked) options[control.name] = control.checked;
      continue;
    }
    const text = control.value.trim();
    if (text) options[control.name] = control.dataset.kind === "number" ? readNumber(text) : text;
  }
  return { options, ...readFiles() };
}

function readFiles() {
  const files = [];
  const missing = [];
  for (const source of part.querySelectorAll("[data-source]")) {
    const option = source.dataset.source;
    if (!source.value) continue;
    const file = chooserOf(source).files[0] ?? null;
    if (source.value === "taken") files.push({ option, file: null, stored: { from_file: Number(source.dataset.taken) } });
    else if (source.value !== "upload") files.push({ option, file: null, stored: { from_task: Number(source.value) } });
    else if (file) files.push({ option, file, stored: null });
    else missing.push(option);
  }
  return { files, missing };
}

/** Set an option as an earlier task had it: a value, or its stored file {id, name}. */
export function takeOption(name, value) {
  const source = part.querySelector(`[data-source="${CSS.escape(name)}"]`);
  if (typeof value === "object") {
    const choice = source.querySelector("[value=taken]");
    choice.hidden = choice.disabled = false;
    source.dataset.taken = value.id;
    source.value = "taken";
    return;
  }
  const control = part.querySelector(`[data-kind][name="${CSS.escape(name)}"]`);
  // what only a file sets has no control of its own
  if (!control) return;
  if (control.type === "checkbox") control.checked = value;
  else {
    if (control.dataset.kind === "library") control.add(new Option(value, value));
    control.value = String(value);
  }
}

/**
 * Let only those be chosen that the runtime can do. unavailable: {option: why}.
 *
 * One that is set stays as it is, so that it can be switched off. Returns those, as problems:
 * [{field, detail}].
 */
export function showUnavailable(unavailable, libraries) {
  const problems = [];
  for (const box of boxes) {
    const name = box.dataset.option;
    const why = unavailable[name] ?? "";
    const kept = Boolean(why) && isWanted(box);
    const library = box.querySelector("[data-kind=library]");
    const isOffered = !library || offer(library, libraries);
    showReason(box, why, kept);
    box.classList.toggle("option--wrong", kept || !isOffered);
    if (kept) problems.push({ field: name, detail: why });
    else if (!isOffered) problems.push({ field: name, detail: fill(part.dataset.noLibrary, { name: library.value }) });
  }
  showCounts();
  return problems;
}

/** Say why an option cannot be chosen; one that is set says it as its problem. */
function showReason(box, why, kept) {
  const place = box.querySelector(".option__why");
  place.textContent = kept ? "" : why;
  place.hidden = kept || !why;
  box.classList.toggle("option--off", Boolean(why) && !kept);
  for (const control of box.querySelectorAll("input, select")) {
    // who just switched it off with the keyboard keeps their place
    control.disabled = Boolean(why) && !kept && control !== document.activeElement;
  }
}

/** Whether load_and_run would be asked for it. */
function isWanted(box) {
  return [...box.querySelectorAll("[data-kind], [data-source]")].some((control) =>
    control.type === "checkbox" ? control.checked : control.value.trim(),
  );
}

/** Offer the device's libraries. Returns whether what was chosen, and stays chosen, is among them. */
function offer(select, names) {
  const chosen = select.value;
  const offered = !chosen || names.includes(chosen);
  const options = [...names, ...(offered ? [] : [chosen])].map(
    (name) => new Option(name, name, false, name === chosen),
  );
  select.replaceChildren(select.options[0], ...options);
  return offered;
}

function chooserOf(source) {
  return source.parentElement.querySelector("[type=file]");
}

/** How many options are set in all and in each group, beside the title. */
function showCounts() {
  showCount(part, document.getElementById("options-set"));
  for (const group of groups) showCount(group, group.querySelector(".option-group__set"));
}

function showCount(group, mark) {
  const switches = [...group.querySelectorAll("[data-kind][type=checkbox]")];
  const checked = switches.filter((c) => c.checked !== c.defaultChecked).length;
  const filled = [...group.querySelectorAll("[data-kind]:not([type=checkbox])")].filter((c) => c.value.trim());
  const files = [...group.querySelectorAll("[data-source]")].filter((source) => source.value);
  const set = checked + filled.length + files.length;
  mark.hidden = set === 0;
  mark.classList.toggle("option-group__set--wrong", Boolean(group.querySelector(".option--wrong")));
  mark.textContent = fill(part.dataset.set, { number: set });
}

/** Show the options whose name or help, in any language, has every word of the query. */
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const box of boxes) {
    const matches = words.every((word) => box.dataset.search.includes(word));
    // a problem is never out of sight
    box.hidden = !matches && !box.querySelector(".field__error:not([hidden])");
    found += matches ? 1 : 0;
  }
  for (const group of groups) {
    group.dataset.was ??= group.open ? "open" : "closed";
    group.hidden = !group.querySelector("[data-option]:not([hidden])");
    group.open = words.length ? true : group.dataset.was === "open";
    if (!words.length) delete group.dataset.was;
  }
  count.textContent = words.length ? fill(part.dataset.found, { number: found, all: boxes.length }) : "";
  document.getElementById("option-none").hidden = found > 0;
}

export function setUpOptions() {
  search.addEventListener("input", filter);
  // Enter in the search must not send the form
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  part.addEventListener("input", showCounts);
  for (const source of part.querySelectorAll("[data-source]")) {
    source.addEventListener("change", () => {
      chooserOf(source).hidden = source.value !== "upload";
    });
  }
  filter();
  showCounts();
}
