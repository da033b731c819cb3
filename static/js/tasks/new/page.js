// The form for a new task: choices that fit each other, checks, then the way to the queue.

import { acceptDrops } from "../../drops.js";
import { NoAnswer, Refusal, loginAddress, onSessionEnd, postJson } from "../../requests.js";
import { beginTrace, markPhase } from "../../trace.js";
import { Transfer } from "../../transfer/transfer.js";
import { checkChosen, setUpChosenFiles } from "./chosen_files.js";
import { addFiles, addRow, give, readRows } from "./file_rows.js";
import { checkFiles, clearErrors, clearParts, focusFirstError, showError, showRefusal } from "./form_errors.js";
import { bringBack, noteDraft, recall, remember, restore } from "./form_memory.js";
import { LiveCommand } from "./live_command.js";
import { readOptions, setUpOptions } from "./option_form.js";
import { prefill } from "./prefill.js";
import { checkScript, isScript, setUpScript } from "./script_form.js";
import { freeze, showState } from "./submit_bar.js";
import { readDraft, readTask, readUploads } from "./task_request.js";
import { setUpWhere } from "./where.js";

const form = document.getElementById("new-task");
/** the files that are on their way, or were the last time */
let transfer = null;

function setUpFiles() {
  const model = form.elements.model;
  const note = document.getElementById("model-note");
  model.addEventListener("change", () => {
    const file = model.files[0];
    note.textContent = file && !/\.mge$/i.test(file.name) ? note.dataset.unusual : "";
  });
  // that none was chosen is not true any more
  for (const chooser of [model, form.elements.program]) {
    chooser.addEventListener("change", () => clearParts([chooser.closest("[data-field]")]));
  }
  acceptDrops(form.querySelector("[data-drop=model]"), (files) => give(model, files[0]));
  const several = document.getElementById("data-files");
  several.addEventListener("change", () => {
    addFiles([...several.files]);
    several.value = "";
  });
  acceptDrops(form.querySelector("[data-drop=data]"), addFiles);
  // a file dropped beside the mark would replace the page
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
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

/** Ask for the command line whenever something changes, also what a browser restores by itself. */
function setUpCommand() {
  const live = new LiveCommand(readDraft, { login: form.dataset.login, onAnswer: () => showState(live) });
  for (const name of ["input", "change"]) {
    form.addEventListener(name, (event) => {
      if (event.target.id !== "option-search") live.ask();
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

/** Create the task on the server. Returns its answer, or null after showing why not. */
async function create(request) {
  try {
    return await postJson(form.dataset.tasks, request, { login: form.dataset.login });
  } catch (error) {
    // the task that the form was filled from was deleted meanwhile: no reason against this one
    if (error.field === "copied_from") return create({ ...request, copied_from: null });
    if (error instanceof Refusal) showRefusal(error, readRows());
    else if (error instanceof NoAnswer) return error;
    else throw error;
    return null;
  }
}

async function start() {
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
    return back();
  }
  markPhase("hash");
  const made = await create(request);
  if (made === null) return back();
  if (made instanceof NoAnswer) {
    showError(null, transfer.cause(made));
    return back();
  }
  return send(made);
}

async function send(made) {
  const task = `${form.dataset.tasks}${made.id}/`;
  const urls = {
    files: `${task}files/`,
    uploads: `${task}uploads/`,
    submit: `${task}submit/?discard=true`,
    cancel: `${task}cancel/`,
    page: `${form.dataset.pages}${made.id}/`,
  };
  noteDraft(urls.page);
  // what cannot be met is corrected in the form: the server has removed the task. A 422 of an
  // upload leaves the task as it is, and can be retried
  const isFinal = (error) => error instanceof Refusal && error.status === 422 && error.isOfSubmit;
  try {
    if (await transfer.run(made.uploads, urls, isFinal)) return noteDraft("");
  } catch (error) {
    if (!isFinal(error)) throw error;
    showRefusal(error, readRows());
  }
  noteDraft("");
  back();
}

function back() {
  transfer.hide();
  freeze(false);
  focusFirstError();
}

/** A session that ended: what was entered survives the login, and so nothing is lost by asking. */
function setUpSessionEnd() {
  const dialog = document.getElementById("session-ended");
  document.getElementById("log-in-again").href = loginAddress(form.dataset.login);
  onSessionEnd(() => {
    transfer?.release();
    bringBack();
    if (!dialog.open) dialog.showModal();
  });
}

/** Who comes back finds the form as it was, and ready to be sent again. */
function setUpReturn(live) {
  window.addEventListener("pagehide", remember);
  // the page in the other language is this page again
  for (const form of document.querySelectorAll("form.language")) form.addEventListener("submit", bringBack);
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    transfer?.hide();
    noteDraft("");
    freeze(false);
    live.ask();
  });
}

function fillIn() {
  const kept = recall();
  const origin = document.getElementById("origin-request");
  if (kept) restore(kept);
  else if (origin) prefill(JSON.parse(origin.textContent));
}

async function submit(live) {
  clearErrors();
  // before minutes go into checksums; an answer takes away what was said at options and inputs
  const isRight = await live.confirm();
  await checkChosen();
  if (isScript()) await checkScript(showError);
  else {
    checkFiles(form.elements.model.files[0] ?? null, readRows());
    checkOptionFiles();
  }
  if (live.failure) showError(null, live.failure);
  showState(live);
  if (!focusFirstError() && isRight) start();
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
  fillIn();
  let isAsking = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // a second press meanwhile must not make a second task
    if (isAsking) return;
    isAsking = true;
    try {
      await submit(live);
    } finally {
      isAsking = false;
    }
  });
}
