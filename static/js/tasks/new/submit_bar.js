// The bar that stays in sight below the form: the button, and whether the form can be sent.

import { fill } from "../../format.js";
import { programName, isScript } from "./script_form.js";
import { isForAny } from "./where.js";

const form = document.getElementById("new-task");
const bar = document.getElementById("submit-bar");
const button = document.getElementById("submit");
const place = document.getElementById("submit-state");
const texts = bar.dataset;

let isFrozen = false;

/** Close the form while its files are sent, or open it again. */
export function freeze(frozen) {
  isFrozen = frozen;
  for (const part of form.querySelectorAll("fieldset")) part.disabled = frozen;
  showState();
}

/** live: what the server last said of the request */
export function showState(live = null) {
  const [text, state] = stateOf(live);
  // a screen reader hears of changes alone
  if (place.textContent !== text) place.textContent = text;
  bar.dataset.state = state;
  button.disabled = isFrozen || state === "impossible";
}

function stateOf(live) {
  if (isFrozen) return [texts.sending, "sending"];
  if (isScript() && document.getElementById("script-rest").hidden) return [texts.noScripts, "impossible"];
  if (!isForAny() && !form.elements.worker.value) return [texts.noDevice, "impossible"];
  const problems = [...form.querySelectorAll(".field__error:not([hidden])")].filter((each) => !each.closest("[data-of][hidden]"));
  if (problems.length) return [fill(texts.problems, { number: problems.length }), "wrong"];
  if (live?.failure) return [texts.unchecked, "wrong"];
  const name = nameOfWhat();
  if (!name) return [isScript() ? texts.noProgram : texts.noModel, "incomplete"];
  const device = isForAny() ? texts.any : deviceName();
  return [fill(texts.ready, { name, device }), "ready"];
}

function nameOfWhat() {
  if (isScript()) return programName();
  const { model } = form.elements;
  return model.files[0]?.name ?? model.dataset.takenName ?? "";
}

/** The device's name without the state of its queue, which its entry in the list has as well. */
function deviceName() {
  const { worker, runtime } = form.elements;
  return `${worker.selectedOptions[0].dataset.name}, MegEngine ${runtime.value}`;
}
