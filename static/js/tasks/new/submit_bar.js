// The sticky bar below the form: the submit button, and whether the form can be submitted.

import { fill } from "../../format.js";
import { programName, isScript } from "./script_form.js";
import { isForAny } from "./where.js";

const form = document.getElementById("new-task");
const bar = document.getElementById("submit-bar");
const button = document.getElementById("submit");
const status = document.getElementById("submit-state");
const texts = bar.dataset;

let isFrozen = false;
/** The LiveCommand of the form; null until it is known. */
let known = null;

/** Disable the form during the upload, or enable it again. */
export function freeze(frozen) {
  isFrozen = frozen;
  for (const part of form.querySelectorAll("fieldset")) part.disabled = frozen;
  showState();
}

/** Show whether the form can be submitted. live: the LiveCommand with the last validation, kept for later calls. */
export function showState(live = known) {
  known = live;
  const [text, state] = stateOf(live);
  // screen readers announce each assignment, so assign changes only
  if (status.textContent !== text) status.textContent = text;
  bar.dataset.state = state;
  button.disabled = isFrozen || state === "impossible";
}

function stateOf(live) {
  if (isFrozen) return [texts.sending, "sending"];
  if (isScript() && document.getElementById("script-rest").hidden) return [texts.noScripts, "impossible"];
  if (!isForAny() && !form.elements.worker.value) return [texts.noDevice, "impossible"];
  const problems = [...form.querySelectorAll(".field__error:not([hidden])")].filter((error) => !error.closest("[data-task-kind][hidden]"));
  if (problems.length) return [fill(problems.length === 1 ? texts.problem : texts.problems, { number: problems.length }), "wrong"];
  if (live?.failure) return [texts.unchecked, "wrong"];
  const name = chosenName();
  if (!name) return [isScript() ? texts.noProgram : texts.noModel, "incomplete"];
  const device = isForAny() ? texts.any : deviceName();
  return [fill(texts.ready, { name, device }), "ready"];
}

/** The name of the chosen program or model; empty if there is none. */
function chosenName() {
  if (isScript()) return programName();
  const { model } = form.elements;
  return model.files[0]?.name ?? model.dataset.storedName ?? "";
}

/** Device and version; the text of the device's option also contains the state of its queue. */
function deviceName() {
  const { worker, runtime } = form.elements;
  return `${worker.selectedOptions[0].dataset.name}, MegEngine ${runtime.value}`;
}
