// The new-task page: sets up the parts of the form, validates it, creates the task and uploads its files.

import { acceptDrops } from "../../drops.js";
import { toJson } from "../../numbers.js";
import { NoAnswer, Refusal, beginTrace, loginUrl, markPhase, onSessionEnd, postJson } from "../../requests.js";
import { Transfer } from "../../transfer/transfer.js";
import { checkChosen, setUpChosenFiles } from "./chosen_files.js";
import { findEarlier, offerEarlier } from "./earlier.js";
import { addFiles, addRow, readRows, setFile } from "./file_rows.js";
import { checkFiles, clearErrors, clearParts, focusFirstError, showError, showRefusal } from "./form_errors.js";
import { loadSavedForm, restoreForm, saveForNextVisit, saveForm, setDraft } from "./form_memory.js";
import { LiveCommand } from "./live_command.js";
import { readOptions, setUpOptions } from "./option_form.js";
import { prefill } from "./prefill.js";
import { checkScript, isScript, setUpScript } from "./script_form.js";
import { freeze, showState } from "./submit_bar.js";
import { readDraft, readTask, readUploads } from "./task_request.js";
import { setUpWhere } from "./where.js";

const form = document.getElementById("new-task");
/** The current or last upload. */
let transfer = null;
/** The last request that returned no task, {text, key}: the server may have created one, which the same key returns. */
let unanswered = { text: "", key: "" };

function setUpFiles() {
  const model = form.elements.model;
  const note = document.getElementById("model-note");
  model.addEventListener("change", () => {
    const file = model.files[0];
    note.textContent = file && !/\.mge$/i.test(file.name) ? note.dataset.unusual : "";
  });
  // clear the messages about the files that were chosen before
  const { program, "other-model": otherModel } = form.elements;
  for (const [part, event] of [[model, "change"], [program, "change"], [otherModel, "change"], [document.getElementById("extra-files-list"), "input"]]) {
    part.addEventListener(event, () => clearParts([part.closest("[data-field]")]));
  }
  document.getElementById("remove-other-model").addEventListener("click", () => {
    otherModel.value = "";
    delete otherModel.dataset.missingFile;
    otherModel.dispatchEvent(new Event("change", { bubbles: true }));
    otherModel.focus();
  });
  acceptDrops(form.querySelector("[data-drop=model]"), (files) => setFile(model, files[0]));
  const multiChooser = document.getElementById("data-files");
  multiChooser.addEventListener("change", () => {
    addFiles([...multiChooser.files]);
    multiChooser.value = "";
  });
  acceptDrops(form.querySelector("[data-drop=data]"), addFiles);
  document.getElementById("add-data").addEventListener("click", () => {
    addRow().querySelector("[name=data-file]").focus();
  });
}

function setUpPlan() {
  const show = () => {
    document.getElementById("custom-plan").hidden = form.elements.preset.value !== "custom";
  };
  for (const choice of form.elements.preset) choice.addEventListener("change", show);
  show();
}

/** Update the command lines at every change, and once now, because browsers restore field values without events. */
function setUpCommand() {
  const live = new LiveCommand(readDraft, { login: form.dataset.login, onChecked: () => showState(live) });
  for (const name of ["input", "change"]) {
    form.addEventListener(name, (event) => {
      if (event.target.id !== "option-search") live.schedule();
    });
  }
  live.check();
  return live;
}

function checkOptionFiles() {
  for (const option of readOptions().missing) {
    showError(option, document.getElementById(`${option}-error`).dataset.file);
  }
}

/** Create the task on the server. Returns the response, a NoAnswer, or null after showing why it was rejected. */
async function create(request) {
  const text = toJson(request);
  if (text !== unanswered.text) unanswered = { text, key: crypto.getRandomValues(new Uint32Array(4)).join("-") };
  try {
    const task = await postJson(form.dataset.tasks, request, { login: form.dataset.login, key: unanswered.key });
    unanswered = { text: "", key: "" };
    return task;
  } catch (error) {
    // the task that this form was copied from has been deleted: create the task without the reference
    if (error.field === "copied_from") return create({ ...request, copied_from: null });
    if (error.code === "idempotency_in_progress") return new NoAnswer(error.status);
    if (error instanceof Refusal) showRefusal(error, readRows());
    else if (error instanceof NoAnswer) return error;
    else throw error;
    return null;
  }
}

/** Hash the files, create the task and upload the files. */
async function createAndUpload() {
  const uploads = readUploads();
  transfer = new Transfer(uploads.map(({ file }) => file), form.dataset.login);
  freeze(true);
  if (form.dataset.traced) beginTrace();
  transfer.panel.scrollIntoView({ block: "nearest" });
  let request;
  try {
    request = readTask(uploads, await transfer.hashAll());
  } catch (error) {
    showError(null, transfer.cause(error));
    return returnToForm();
  }
  markPhase("hash");
  const earlier = await findEarlier(request);
  if (earlier) {
    // the page may be left: nothing is being sent
    transfer.release();
    if (!(await offerEarlier(earlier))) return returnToForm();
    transfer.hold();
  }
  const task = await create(request);
  if (task === null) return returnToForm();
  if (task instanceof NoAnswer) {
    showError(null, transfer.cause(task));
    return returnToForm();
  }
  return upload(task);
}

async function upload(task) {
  const url = `${form.dataset.tasks}${task.id}/`;
  const urls = {
    files: `${url}files/`,
    uploads: `${url}uploads/`,
    submit: `${url}submit/?discard=true`,
    cancel: `${url}cancel/`,
    page: `${form.dataset.pages}${task.id}/`,
  };
  setDraft(urls.page);
  // after a 422 of the submit request the server has removed the task, and the user corrects the form;
  // a 422 of an upload leaves the task as it is, and the upload can be retried
  const isFinal = (error) => error instanceof Refusal && error.status === 422 && error.isFromSubmit;
  try {
    if (await transfer.run(task.uploads, urls, isFinal)) return setDraft("");
  } catch (error) {
    if (!isFinal(error)) throw error;
    showRefusal(error, readRows());
  }
  setDraft("");
  returnToForm();
}

function returnToForm() {
  transfer.hide();
  freeze(false);
  focusFirstError();
}

/** When the session ends, save the form, and ask the user to log in again. */
function setUpSessionEnd() {
  const dialog = document.getElementById("session-ended");
  document.getElementById("log-in-again").href = loginUrl(form.dataset.login);
  onSessionEnd(() => {
    transfer?.release();
    saveForNextVisit();
    if (!dialog.open) dialog.showModal();
  });
}

/** Save the form when the user leaves the page, and reset its state when the user returns. */
function setUpReturn(live) {
  window.addEventListener("pagehide", saveForm);
  // a change of the language loads this page again
  for (const form of document.querySelectorAll("form.language")) form.addEventListener("submit", saveForNextVisit);
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    transfer?.hide();
    setDraft("");
    freeze(false);
    live.schedule();
  });
}

/** Fill the form: with its saved content, or with the request of the task that it is copied from. */
function fillForm() {
  const saved = loadSavedForm();
  const origin = document.getElementById("origin-request");
  if (origin) document.getElementById("origin").hidden = false;
  document.getElementById("origin-arms")?.removeAttribute("hidden");
  if (saved) restoreForm(saved);
  else if (origin) prefill(JSON.parse(origin.textContent));
}

async function submit(live) {
  clearErrors();
  // validate before checksums, which may take minutes; the response also clears messages at options and inputs
  const isValid = await live.confirm();
  await checkChosen();
  if (isScript()) await checkScript(showError);
  else {
    checkFiles(form.elements.model.files[0] ?? null, readRows());
    checkOptionFiles();
  }
  if (live.failure) showError(null, live.failure);
  showState(live);
  if (!focusFirstError() && isValid) createAndUpload();
}

if (form) {
  const showDevices = setUpWhere();
  setUpScript(showDevices);
  setUpFiles();
  setUpPlan();
  setUpOptions();
  setUpSessionEnd();
  const live = setUpCommand();
  setUpChosenFiles(() => showState(live));
  setUpReturn(live);
  form.addEventListener("change", () => showState(live));
  fillForm();
  let isSubmitting = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // a second click must not create a second task
    if (isSubmitting) return;
    isSubmitting = true;
    try {
      await submit(live);
    } finally {
      isSubmitting = false;
    }
  });
}
