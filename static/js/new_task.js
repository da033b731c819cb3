// The form for a new task: choices that fit each other, checks, then the way to the queue.

import { acceptDrops } from "./drops.js";
import { addRow, give, readRows } from "./file_rows.js";
import { checkFiles, clearErrors, focusFirstError, showError } from "./form_errors.js";
import { LiveCommand } from "./live_command.js";
import { readOptions, setUpOptions } from "./option_form.js";
import { prefill } from "./prefill.js";
import { NoAnswer, Refusal, postJson } from "./requests.js";
import { checkScript, isScript, setUpScript } from "./script_form.js";
import { readDraft, readTask, readUploads } from "./task_request.js";
import { beginTrace, markPhase } from "./trace.js";
import { Transfer } from "./transfer.js";
import { setUpWhere } from "./where.js";

const form = document.getElementById("new-task");

function setUpFiles() {
  const model = form.elements.model;
  const note = document.getElementById("model-note");
  model.addEventListener("change", () => {
    const file = model.files[0];
    note.textContent = file && !/\.mge$/i.test(file.name) ? note.dataset.unusual : "";
  });
  acceptDrops(form.querySelector("[data-drop=model]"), (files) => give(model, files[0]));
  acceptDrops(form.querySelector("[data-drop=data]"), (files) => files.forEach((file) => addRow(file)));
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
  const live = new LiveCommand(readDraft, form.dataset.login);
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
    return await postJson(form.dataset.create, request, { login: form.dataset.login });
  } catch (error) {
    if (error instanceof Refusal) showError(error.field, error.message);
    else if (error instanceof NoAnswer) return error;
    else throw error;
    return null;
  }
}

function freeze(frozen) {
  for (const part of form.querySelectorAll("fieldset")) part.disabled = frozen;
  document.getElementById("submit").disabled = frozen;
}

async function start() {
  const uploads = readUploads();
  const transfer = new Transfer(uploads.map(({ file }) => file), form.dataset.login);
  freeze(true);
  if (form.dataset.traced) beginTrace();
  transfer.panel.scrollIntoView({ block: "nearest" });
  let request;
  try {
    request = readTask(uploads, await transfer.hashAll());
  } catch (error) {
    showError(null, transfer.cause(error));
    return back(transfer);
  }
  markPhase("hash");
  const made = await create(request);
  if (made === null) return back(transfer);
  if (made instanceof NoAnswer) {
    showError(null, transfer.cause(made));
    return back(transfer);
  }
  return send(transfer, made);
}

async function send(transfer, made) {
  const urls = {
    files: `${made.url}files/`,
    uploads: `${made.url}uploads/`,
    submit: `${made.url}submit/`,
    cancel: `${made.url}cancel/`,
  };
  if (!(await transfer.run(made.uploads, urls))) back(transfer);
}

function back(transfer) {
  transfer.hide();
  freeze(false);
  focusFirstError();
}

if (form) {
  const showDevices = setUpWhere();
  setUpScript(showDevices);
  setUpFiles();
  setUpPlan();
  setUpOptions();
  const live = setUpCommand();
  let isAsking = false;
  if (form.dataset.origin) prefill().catch(() => showError(null, form.dataset.noOrigin));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // a second press meanwhile must not make a second task
    if (isAsking) return;
    isAsking = true;
    clearErrors();
    try {
      // before minutes go into checksums; an answer takes away what was said at options and inputs
      const isRight = await live.confirm();
      if (isScript()) await checkScript(showError);
      else {
        checkFiles(form.elements.model.files[0] ?? null, readRows());
        checkOptionFiles();
      }
      if (live.failure) showError(null, live.failure);
      if (!focusFirstError() && isRight) start();
    } finally {
      isAsking = false;
    }
  });
}
