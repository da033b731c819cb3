// The options in the form: their values, which of them are unavailable, and the search.

import { fill } from "../../format.js";
import { readNumber } from "../../numbers.js";
import { Refusal, deleteAt, postJson } from "../../requests.js";
import { isForInputMethod } from "../../shortcuts.js";

const part = document.getElementById("options");
const search = document.getElementById("option-search");
const boxes = [...part.querySelectorAll("[data-option]")];
const groups = [...part.querySelectorAll("details[data-group]")];
const count = document.getElementById("option-count");
const presets = [...document.querySelectorAll("#option-presets [data-options]")];
const switchesOf = ({ dataset }) => dataset.options.split(" ").filter(Boolean);
/** The options of all presets. */
const presetSwitches = [...new Set(presets.flatMap(switchesOf))];

/** The user's own presets: {id, name, options}, and the button of each. */
const ownPresets = JSON.parse(document.getElementById("own-presets").textContent);
const ownButton = ({ id }) => document.querySelector(`#option-presets [data-preset="${id}"]`);
const ownFold = document.getElementById("own-preset");

/**
 * Read the options: `options`, values by name; `files`, [{option, file, stored}]; `missing`, the names of
 * options whose file is not chosen. `stored`: the reference to a stored file in the API's format, or null.
 *
 * Options that the runtime does not support are included while they are set; the server rejects them
 * with a message.
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
    if (source.value === "stored") files.push({ option, file: null, stored: { from_file: Number(source.dataset.storedId) } });
    else if (source.value !== "upload") files.push({ option, file: null, stored: { from_task: Number(source.value) } });
    else if (file) files.push({ option, file, stored: null });
    else missing.push(option);
  }
  return { files, missing };
}

/** Offer the stored file of an earlier task as the source of an option; returns the select, null if there is none. */
export function offerStored(name, fileId) {
  const source = part.querySelector(`[data-source="${CSS.escape(name)}"]`);
  if (!source) return null;
  const choice = source.querySelector("[value=stored]");
  choice.hidden = choice.disabled = false;
  source.dataset.storedId = fileId;
  return source;
}

/** Set an option to its value in an earlier task: a value, or its stored file {id, name}. */
export function setOption(name, value) {
  if (typeof value === "object") {
    offerStored(name, value.id).value = "stored";
    return;
  }
  const control = part.querySelector(`[data-kind][name="${CSS.escape(name)}"]`);
  // options that are set by a file alone have no control
  if (!control) return;
  if (control.type === "checkbox") control.checked = value;
  else {
    if (control.dataset.kind === "library") control.add(new Option(value, value));
    control.value = String(value);
  }
}

/**
 * Disable the options that the runtime does not support. unavailable: {option: reason}.
 *
 * Options that are set stay enabled, so that the user can unset them. Returns them as problems:
 * [{field, detail}].
 */
export function showUnavailable(unavailable, libraries) {
  const problems = [];
  for (const box of boxes) {
    const name = box.dataset.option;
    const reason = unavailable[name] ?? "";
    const isConflict = Boolean(reason) && isSet(box);
    const library = box.querySelector("[data-kind=library]");
    const isOffered = !library || offerLibraries(library, libraries);
    showReason(box, reason, isConflict);
    box.classList.toggle("option--invalid", isConflict || !isOffered);
    if (isConflict) problems.push({ field: name, detail: reason });
    else if (!isOffered) problems.push({ field: name, detail: fill(part.dataset.noLibrary, { name: library.value }) });
  }
  showCounts();
  return problems;
}

/** Show why an option is unavailable; for an option that is set, the reason is shown as a problem instead. */
function showReason(box, reason, isConflict) {
  const note = box.querySelector(".option__reason");
  note.textContent = isConflict ? "" : reason;
  note.hidden = isConflict || !reason;
  box.classList.toggle("option--unavailable", Boolean(reason) && !isConflict);
  for (const control of box.querySelectorAll("input, select")) {
    // disabling the focused control would lose the keyboard focus
    control.disabled = Boolean(reason) && !isConflict && control !== document.activeElement;
  }
}

/** Whether the option is set. */
function isSet(box) {
  return [...box.querySelectorAll("[data-kind], [data-source]")].some((control) =>
    control.type === "checkbox" ? control.checked : control.value.trim(),
  );
}

/** List the device's libraries; the selected one stays. Returns whether the device has the selected one. */
function offerLibraries(select, names) {
  const selected = select.value;
  const isOffered = !selected || names.includes(selected);
  const options = [...names, ...(isOffered ? [] : [selected])].map(
    (name) => new Option(name, name, false, name === selected),
  );
  select.replaceChildren(select.options[0], ...options);
  return isOffered;
}

function chooserOf(source) {
  return source.parentElement.querySelector("[type=file]");
}

/** Show the number of options that are set, in total and for each group, and the preset that they are. */
function showCounts() {
  showCount(part, document.getElementById("options-set"));
  for (const group of groups) showCount(group, group.querySelector(".option-group__set"));
  const { options, files, missing } = readOptions();
  const isDefault = Object.keys(options).length + files.length + missing.length === 0;
  const preset = presets.find((button) => {
    const switches = switchesOf(button);
    return switches.length ? presetSwitches.every((name) => switches.includes(name) === (options[name] === true)) : isDefault;
  });
  const own = ownPresets.find((each) => isSame(each.options, options));
  for (const button of presets) button.setAttribute("aria-pressed", String(button === preset && !own));
  for (const each of ownPresets) ownButton(each).setAttribute("aria-pressed", String(each === own));
  document.getElementById("preset-help").textContent = own ? "" : (preset?.dataset.help ?? "");
  const remove = document.getElementById("preset-remove");
  remove.hidden = !own;
  remove.dataset.preset = own?.id ?? "";
}

function isSame(a, b) {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => String(a[name]) === String(b[name]));
}

/** Switch on the options of a preset and those of the others off; the one without options sets all to their defaults. */
function applyPreset(button) {
  const switches = switchesOf(button);
  if (!switches.length) clearOptions();
  for (const name of presetSwitches) setOption(name, switches.includes(name));
  part.dispatchEvent(new Event("input", { bubbles: true }));
}

function applyOwnPreset({ options }) {
  clearOptions();
  for (const [name, value] of Object.entries(options)) setOption(name, value);
  part.dispatchEvent(new Event("input", { bubbles: true }));
}

function clearOptions() {
  for (const control of part.querySelectorAll("[data-kind], [data-source]")) {
    if (control.type === "checkbox") control.checked = control.defaultChecked;
    else control.value = "";
    if (control.dataset.source) control.dispatchEvent(new Event("change"));
  }
}

/** Let the user save the options as a preset of his own, use it and delete it. */
function setUpOwnPresets() {
  const name = /** @type {HTMLInputElement} */ (document.getElementById("preset-name"));
  const problem = document.getElementById("preset-problem");
  const { login } = document.getElementById("new-task").dataset;

  async function attempt(act) {
    problem.textContent = "";
    try {
      await act();
      showCounts();
    } catch (error) {
      problem.textContent = error instanceof Refusal ? error.message : ownFold.dataset.failed;
    }
  }
  const save = () => attempt(async () => {
    const preset = await postJson(ownFold.dataset.url, { name: name.value, options: readOptions().options }, { login });
    const place = ownPresets.findIndex(({ id }) => id === preset.id);
    if (place >= 0) ownPresets[place] = preset;
    else {
      ownPresets.push(preset);
      const button = document.createElement("button");
      button.type = "button";
      button.className = "button button--small hostile";
      button.dataset.preset = preset.id;
      button.textContent = preset.name;
      document.getElementById("option-presets").prepend(button);
    }
    name.value = "";
    ownFold.removeAttribute("open");
    ownButton(preset).focus();
  });
  document.getElementById("preset-save").addEventListener("click", save);
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || isForInputMethod(event)) return;
    event.preventDefault();
    save();
  });
  document.getElementById("preset-remove").addEventListener("click", ({ currentTarget }) => attempt(async () => {
    const preset = ownPresets.find(({ id }) => String(id) === currentTarget.dataset.preset);
    await deleteAt(`${ownFold.dataset.url}${preset.id}/`, { login });
    // a second click may have removed it meanwhile
    if (!ownPresets.includes(preset)) return;
    ownButton(preset).remove();
    ownPresets.splice(ownPresets.indexOf(preset), 1);
    name.focus();
  }));
  document.getElementById("option-presets").addEventListener("click", ({ target }) => {
    const preset = ownPresets.find(({ id }) => String(id) === target.dataset.preset);
    if (preset) applyOwnPreset(preset);
  });
}

function showCount(group, badge) {
  const checkboxes = [...group.querySelectorAll("[data-kind][type=checkbox]")];
  const changed = checkboxes.filter((checkbox) => checkbox.checked !== checkbox.defaultChecked);
  const filled = [...group.querySelectorAll("[data-kind]:not([type=checkbox])")].filter((control) => control.value.trim());
  const files = [...group.querySelectorAll("[data-source]")].filter((source) => source.value);
  const number = changed.length + filled.length + files.length;
  badge.hidden = number === 0;
  badge.classList.toggle("option-group__set--invalid", Boolean(group.querySelector(".option--invalid")));
  badge.textContent = fill(part.dataset.set, { number });
}

/** Show the options whose name or help text, in any language, contains every word of the query. */
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let matchCount = 0;
  for (const box of boxes) {
    const matches = words.every((word) => box.dataset.search.includes(word));
    // options with a problem are never hidden
    box.hidden = !matches && !box.querySelector(".field__error:not([hidden])");
    matchCount += matches ? 1 : 0;
  }
  for (const group of groups) {
    group.dataset.was ??= group.open ? "open" : "closed";
    group.hidden = !group.querySelector("[data-option]:not([hidden])");
    group.open = words.length ? true : group.dataset.was === "open";
    if (!words.length) delete group.dataset.was;
  }
  count.textContent = words.length ? fill(part.dataset.found, { number: matchCount, all: boxes.length }) : "";
  document.getElementById("option-none").hidden = matchCount > 0;
}

export function setUpOptions() {
  search.addEventListener("input", filter);
  // Enter in the search field must not submit the form
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  part.addEventListener("input", showCounts);
  for (const button of presets) button.addEventListener("click", () => applyPreset(button));
  setUpOwnPresets();
  for (const source of part.querySelectorAll("[data-source]")) {
    const showChooser = () => {
      chooserOf(source).hidden = source.value !== "upload";
    };
    source.addEventListener("change", showChooser);
    showChooser();
  }
  filter();
  showCounts();
}
