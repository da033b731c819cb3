// The options in the form: their values, which of them cannot be chosen, and the search.

import { fill } from "./format.js";

const part = document.getElementById("options");
const search = document.getElementById("option-search");
const boxes = [...part.querySelectorAll("[data-option]")];
const groups = [...part.querySelectorAll("details[data-group]")];
const count = document.getElementById("option-found");
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Numbers as numbers; what is none is sent as it stands, for the server to say so. */
export function number(text) {
  return NUMBER.test(text) ? Number(text) : text;
}

/**
 * What is set: `options` by name, `files` [{option, file, stored}], and the names of options whose
 * file is `missing`. `stored`: where else than from `file` it comes, as the server takes it.
 */
export function readOptions() {
  const options = {};
  for (const control of part.querySelectorAll("[data-kind]")) {
    if (control.disabled) continue;
    if (control.type === "checkbox") {
      if (control.checked !== control.defaultChecked) options[control.name] = control.checked;
      continue;
    }
    const text = control.value.trim();
    if (text) options[control.name] = control.dataset.kind === "number" ? number(text) : text;
  }
  return { options, ...readFiles() };
}

function readFiles() {
  const files = [];
  const missing = [];
  for (const source of part.querySelectorAll("[data-source]")) {
    const option = source.dataset.source;
    if (source.disabled || !source.value) continue;
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

/** Let only those be chosen that the runtime can do. unavailable: {option: why}. */
export function showUnavailable(unavailable, libraries) {
  for (const box of boxes) {
    const why = unavailable[box.dataset.option] ?? "";
    const place = box.querySelector(".option__why");
    place.textContent = why;
    place.hidden = !why;
    box.classList.toggle("option--off", Boolean(why));
    for (const control of box.querySelectorAll("input, select")) control.disabled = Boolean(why);
  }
  for (const select of part.querySelectorAll("[data-kind=library]")) offer(select, libraries);
  showCounts();
}

function offer(select, names) {
  const chosen = select.value;
  const options = names.map((name) => new Option(name, name, false, name === chosen));
  select.replaceChildren(select.options[0], ...options);
}

function chooserOf(source) {
  return source.parentElement.querySelector("[type=file]");
}

/** How many options of each group are set, beside its title. */
function showCounts() {
  for (const group of groups) {
    const switches = [...group.querySelectorAll("[data-kind][type=checkbox]:enabled")];
    const checked = switches.filter((c) => c.checked !== c.defaultChecked).length;
    const filled = [...group.querySelectorAll("[data-kind]:not([type=checkbox]):enabled")].filter((c) => c.value.trim());
    const files = [...group.querySelectorAll("[data-source]:enabled")].filter((source) => source.value);
    const set = checked + filled.length + files.length;
    const mark = group.querySelector(".option-group__set");
    mark.hidden = set === 0;
    mark.textContent = fill(part.dataset.set, { number: set });
  }
}

/** Show the options whose name or help, in any language, has every word of the query. */
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const box of boxes) {
    box.hidden = !words.every((word) => box.dataset.search.includes(word));
    found += box.hidden ? 0 : 1;
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
