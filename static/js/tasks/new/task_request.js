// Build the API request from the form.

import { readNumber } from "../../numbers.js";
import { readRows } from "./file_rows.js";
import { readOptions } from "./option_form.js";
import { isScript, readScript, scriptDraft, scriptFiles } from "./script_form.js";
import { readWhere } from "./where.js";

const form = document.getElementById("new-task");
const LETTERS = "ABCD";
/** The numbers of a custom plan, as the form and the API name them. */
export const PLAN_NUMBERS = ["clean_passes", "clean_min_s", "clean_min_iterations", "budget_s", "half_width", "profiled"];

/** The draft of the task for validation: incomplete rows are left out. */
export function readDraft() {
  if (isScript()) return { ...readWhere(), script: readScript(), files: scriptDraft() };
  const rows = readRows().filter(isComplete);
  const { options, files } = readOptions();
  const data = rows.filter((row) => row.mode === "file");
  return {
    ...common(options),
    pairing: readPairing(),
    inputs: markInputs(rows),
    files: [
      ...data.map(({ name, input }) => ({ kind: "data", name, input })),
      ...files.map(({ option }) => ({ kind: "option", option })),
      ...storedArms().flatMap(({ files: own }, i) => own.map(({ kind, name, input, option }) => ({ kind, name, input, option, arm: i + 1 }))),
    ],
  };
}

/** The task. uploads: [{file, kind, input, option, arm}]; sums: their MD5 checksums in the same order. */
export function readTask(uploads, sums) {
  const origin = { copied_from: form.dataset.copiedFrom ? Number(form.dataset.copiedFrom) : null };
  const sent = uploads.map(({ file, kind, input, option, arm = 0 }, i) => ({
    kind,
    arm,
    name: file.name,
    size_bytes: file.size,
    md5: sums[i],
    input,
    option,
  }));
  if (isScript()) {
    return { ...readWhere(), ...origin, script: readScript(), files: [...sent, ...scriptFiles().stored] };
  }
  const { options, files } = readOptions();
  return {
    ...common(options),
    ...origin,
    pairing: readPairing(),
    inputs: markInputs(readRows()),
    files: [
      ...sent,
      ...storedFiles(),
      ...storedArms().flatMap(({ files: own }, i) => own.map(({ kind, id, input }) => ({ kind, from_file: id, input, arm: i + 1 }))),
      ...files.filter(({ stored }) => stored).map(({ option, stored }) => ({ kind: "option", option, ...stored })),
    ],
  };
}

/** The files to upload, in the order in which the server returns their upload targets. */
export function readUploads() {
  if (isScript()) return scriptFiles().uploads;
  const model = form.elements.model.files[0];
  const data = readRows().filter((row) => row.mode === "file" && row.file);
  const { files } = readOptions();
  const [other] = form.elements["other-model"].files;
  return [
    ...(model ? [{ file: model, kind: "model", input: "", option: "" }] : []),
    ...data.map(({ file, input }) => ({ file, kind: "data", input, option: "" })),
    ...files.filter(({ file }) => file).map(({ file, option }) => ({ file, kind: "option", input: "", option })),
    ...(other ? [{ file: other, kind: "model", input: "", option: "", arm: storedArms().length + 1 }] : []),
  ];
}

/** The paired comparison with the arms of an earlier task and the other model; null if there are none. */
function readPairing() {
  const arms = storedArms().map(({ arm }) => arm);
  if (form.elements["other-model"].files.length) arms.push({});
  if (!arms.length) return null;
  const numbers = ["margin", "budget_s", "least_cosine"].map((name) => [name, readNumber(form.elements[`pairing-${name}`].value.trim())]);
  return { ...Object.fromEntries(numbers), arms };
}

/**
 * The checked arms of the earlier task that the form was filled from: [{arm, files}]. Sets their letters, and the
 * field paths at which the server's errors are shown.
 */
function storedArms() {
  const boxes = [...document.querySelectorAll("#origin-arms [name=arm]")];
  const kept = boxes.filter((box) => box.checked);
  for (const box of boxes) {
    const item = box.closest("li");
    const place = kept.indexOf(box);
    item.dataset.field = place < 0 ? "" : `pairing.arms.${place}`;
    item.querySelector(".arms__letter").textContent = place < 0 ? "–" : LETTERS[place + 1];
    item.classList.toggle("arms__arm--out", place < 0);
  }
  if (!kept.length) return [];
  const { pairing, files, runtime_version: version } = JSON.parse(document.getElementById("origin-request").textContent);
  return kept.map(({ value }) => {
    const arm = pairing.arms[Number(value) - 1];
    // the version of the baseline may be changed in the form
    const own = arm.runtime_version === version ? "" : arm.runtime_version;
    return { arm: { ...arm, runtime_version: own }, files: files.filter((file) => file.arm === Number(value)) };
  });
}

/** References to the model and data files of an earlier task that are used again. */
function storedFiles() {
  const model = form.elements.model.dataset.storedId;
  const data = readRows().filter((row) => row.mode === "file" && !row.file && row.storedId);
  return [
    ...(model ? [{ kind: "model", from_file: Number(model) }] : []),
    ...data.map(({ storedId, input }) => ({ kind: "data", from_file: storedId, input })),
  ];
}

function common(options) {
  return {
    ...readWhere(),
    options,
    plan: readPlan(),
    seed: readNumber(form.elements.seed.value.trim() || "0"),
    time_limit_s: readNumber(form.elements.model_time_limit_s.value.trim() || "0"),
  };
}

function readPlan() {
  const preset = form.elements.preset.value;
  if (preset !== "custom") return { preset };
  const plan = { preset, clean: form.elements.clean.checked };
  for (const name of PLAN_NUMBERS) {
    plan[name] = readNumber(form.elements[name].value.trim());
  }
  return plan;
}

function isComplete({ mode, name, input, numbers, inFile }) {
  if (mode === "file") return Boolean(name) && Boolean(input || inFile);
  return Boolean(input) && (mode === "random" || Boolean(numbers));
}

/** The inputs without a file; sets the field path of their rows, so that the server's errors find them. */
function markInputs(rows) {
  for (const { row } of readRows()) delete row.dataset.field;
  return rows
    .filter((row) => row.mode !== "file")
    .map(({ row, mode, input, numbers, shape, dtype }, i) => {
      row.dataset.field = `inputs.${i}`;
      return mode === "numbers" ? { name: input, literal: numbers } : { name: input, shape, dtype };
    });
}
