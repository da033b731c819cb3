// The form filled with the request of an earlier task, whose files are taken over unless replaced.

import { fill, sentences } from "../../format.js";
import { addRow, take, takeModel } from "./file_rows.js";
import { takeOption } from "./option_form.js";
import { isScript, takeBeside, takeProgram, takeScript } from "./script_form.js";
import { takeTarget } from "./where.js";

const form = document.getElementById("new-task");

/** Show the request that the form starts from, as the page holds it. */
export function prefill(asked) {
  form.dataset.copiedFrom = asked.id;
  form.elements.kind.value = asked.kind;
  form.querySelector("[name=kind]:checked").dispatchEvent(new Event("change"));
  if (asked.script) takeScript(asked.script);
  const moved = asked.target ? !takeTarget(asked.target) : !chooseDevice(asked);
  form.elements.priority.value = String(asked.priority);
  form.elements.title.value = asked.title;
  for (const [name, value] of Object.entries(asked.options)) takeOption(name, value);
  choosePlan(asked.plan);
  form.elements.seed.value = String(asked.seed);
  form.elements.model_time_limit_s.value = asked.time_limit_s || "";
  const gone = asked.files.filter((file) => !takeFile(file)).map((file) => file.name);
  for (const given of asked.inputs) addGiven(given);
  tell(moved, gone);
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
    for (const name of ["clean_min_s", "clean_min_iterations", "profiled"]) {
      form.elements[name].value = String(plan[name]);
    }
  }
  form.querySelector(`[name=preset][value="${CSS.escape(plan.preset)}"]`)?.dispatchEvent(new Event("change"));
}

/** Returns whether storage still holds the file. */
function takeFile(file) {
  if (!file.is_stored) return false;
  const stored = { id: file.id, name: file.name };
  if (isScript()) {
    (file.kind === "model" ? takeProgram : takeBeside)(stored);
    return true;
  }
  if (file.kind === "model") takeModel(stored);
  else if (file.kind === "data") take(addRow(), stored, file.input);
  else takeOption(file.option, stored);
  return true;
}

function addGiven({ name, literal, shape, dtype }) {
  const row = addRow();
  const put = (field, value) => {
    row.querySelector(`[name=data-${field}]`).value = value;
  };
  put("mode", literal ? "numbers" : "random");
  put("input", name);
  put("numbers", literal);
  put("shape", (shape ?? []).join(","));
  put("dtype", dtype);
  row.querySelector("[name=data-mode]").dispatchEvent(new Event("change"));
}

function tell(moved, gone) {
  const texts = document.getElementById("origin").dataset;
  const notes = [moved ? texts.moved : "", gone.length ? fill(texts.gone, { names: gone.join(", ") }) : ""];
  document.getElementById("origin-note").textContent = sentences(notes);
}
