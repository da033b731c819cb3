// Fill the form with the request of an earlier task; its stored files are used again unless replaced.

import { fill, sentences } from "../../format.js";
import { addRow, setStored, setStoredFile } from "./file_rows.js";
import { setOption } from "./option_form.js";
import { addStoredExtraFile, isScript, setScript } from "./script_form.js";
import { PLAN_NUMBERS } from "./task_request.js";
import { setTarget } from "./where.js";

const form = document.getElementById("new-task");

/** Fill the form with `request`, the JSON in the page's #origin-request. */
export function prefill(request) {
  form.dataset.copiedFrom = request.id;
  form.elements.kind.value = request.kind;
  form.querySelector("[name=kind]:checked").dispatchEvent(new Event("change"));
  if (request.script) setScript(request.script);
  const moved = request.target ? !setTarget(request.target) : !chooseDevice(request);
  form.elements.priority.value = String(request.priority);
  form.elements.title.value = request.title;
  for (const [name, value] of Object.entries(request.options)) setOption(name, value);
  if (request.pairing) fillPairing(request.pairing);
  else choosePlan(request.plan);
  form.elements.seed.value = String(request.seed);
  form.elements.model_time_limit_s.value = request.time_limit_s || "";
  const missing = request.files.filter((file) => !file.arm && !reuseFile(file)).map((file) => file.name);
  for (const input of request.inputs) addInput(input);
  showNotes(moved, missing);
  form.dispatchEvent(new Event("change"));
}

function chooseDevice({ worker, runtime_version: runtime }) {
  const device = [...form.elements.worker.options].find((option) => option.value === String(worker));
  if (!device || device.disabled) return false;
  form.elements.worker.value = device.value;
  form.elements.worker.dispatchEvent(new Event("change"));
  const version = [...form.elements.runtime.options].find((option) => option.value === runtime);
  if (!version || version.disabled) return false;
  form.elements.runtime.value = runtime;
  form.elements.runtime.dispatchEvent(new Event("change"));
  return true;
}

function choosePlan(plan) {
  form.elements.preset.value = plan.preset;
  if (plan.preset === "custom") {
    form.elements.clean.checked = plan.clean;
    // a plan without latency passes has no numbers of them
    for (const name of PLAN_NUMBERS.filter((known) => known in plan)) form.elements[name].value = String(plan[name]);
  }
  form.querySelector(`[name=preset][value="${CSS.escape(plan.preset)}"]`)?.dispatchEvent(new Event("change"));
}

/** Fill in the numbers of a paired comparison; its arms are in the page. */
function fillPairing(pairing) {
  document.querySelector("#pairing").open = true;
  for (const name of ["margin", "budget_s", "least_cosine"]) form.elements[`pairing-${name}`].value = String(pairing[name]);
}

/** Use a file of the earlier task again. Returns false if it is no longer in storage, and must be chosen again. */
function reuseFile(file) {
  if (!file.is_stored) {
    if (file.kind === "data" && isScript()) addStoredExtraFile({ id: null, name: file.name });
    else if (file.kind === "data") {
      const row = addRow();
      row.querySelector("[name=data-file]").dataset.missingFile = file.name;
      row.querySelector("[name=data-input]").value = file.input;
    }
    return false;
  }
  const stored = { id: file.id, name: file.name, arrays: file.arrays, address: file.address, size: file.size_bytes };
  if (file.kind === "model") setStoredFile(isScript() ? form.elements.program : form.elements.model, stored);
  else if (isScript()) addStoredExtraFile(stored);
  else if (file.kind === "data") setStored(addRow(), stored, file.input);
  else setOption(file.option, stored);
  return true;
}

/** Add a row for an input without a file: numbers, or random values. */
function addInput({ name, literal, shape, dtype }) {
  const row = addRow();
  const setField = (field, value) => {
    row.querySelector(`[name=data-${field}]`).value = value;
  };
  setField("mode", literal ? "numbers" : "random");
  setField("input", name);
  setField("numbers", literal);
  setField("shape", (shape ?? []).join(","));
  setField("dtype", dtype);
  row.querySelector("[name=data-mode]").dispatchEvent(new Event("change"));
}

/** Show whether the device had to be changed (`moved`), and which files are missing. */
function showNotes(moved, missing) {
  const texts = document.getElementById("origin").dataset;
  const notes = [moved ? texts.moved : "", missing.length ? fill(texts.gone, { names: missing.join(", ") }) : ""];
  document.getElementById("origin-note").textContent = sentences(notes);
}
