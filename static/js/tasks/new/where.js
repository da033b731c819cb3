// The target of the task: one device and MegEngine version, or any matching device; and its queue.

import { readNumber, toJson } from "../../numbers.js";
import { makeRefresher } from "../../refresher.js";
import { readOptions } from "./option_form.js";
import { isScript } from "./script_form.js";

const INTERVAL_MS = 15_000;

const form = document.getElementById("new-task");

export const isForAny = () => form.elements.where.value === "any";

/** "binary" for a compiled load_and_run, "wheel" for the Python package, "" where either may run it. */
export function runtimeKind() {
  return isForAny() ? "" : (form.elements.runtime.selectedOptions[0]?.dataset.kind ?? "");
}

/** The requirements for "any device", in the API's format. */
function readTarget() {
  const target = { labels: {}, pool: form.elements.pool?.value ?? "", versions: form.elements.versions.value.trim() };
  for (const select of labelSelects()) {
    if (select.value) target.labels[select.dataset.label] = select.value;
  }
  return target;
}

/** Device, version, target, priority and title of the request. */
export function readWhere() {
  const { worker, runtime, priority, title } = form.elements;
  const named = { worker: worker.value ? Number(worker.value) : null, runtime_version: runtime.value, target: null };
  return {
    ...(isForAny() ? { worker: null, runtime_version: "", target: readTarget() } : named),
    priority: readNumber(priority.value.trim() || "0"),
    title: title.value.trim(),
  };
}

/** Select the target of an earlier task. Returns false if the form does not offer some of its labels or its pool. */
export function setTarget(target) {
  form.elements.where.value = "any";
  const labels = { ...target.labels };
  for (const select of labelSelects()) {
    select.value = labels[select.dataset.label] ?? "";
    if (select.value) delete labels[select.dataset.label];
  }
  form.elements.versions.value = target.versions ?? "";
  if (form.elements.pool) form.elements.pool.value = target.pool ?? "";
  show();
  const hasPool = !target.pool || form.elements.pool?.value === target.pool;
  return hasPool && Object.keys(labels).length === 0;
}

/** Set up the part. Returns a function that updates the choices after a change of the kind of the task. */
export function setUpWhere() {
  const showDevices = setUpDevices();
  const outlook = document.getElementById("outlook");
  const refreshOutlook = makeRefresher(outlook, outlookUrl, { delayMs: 250 });
  for (const choice of form.elements.where) choice.addEventListener("change", show);
  for (const name of ["input", "change"]) {
    form.addEventListener(name, ({ target }) => {
      const isForDevice = target.closest("#where") ? target.id !== "title" : isForAny() && target.closest("#options");
      if (target.name === "priority" || isForDevice) refreshOutlook();
    });
  }
  // `prefill` and `restoreForm` set the fields without events, then dispatch one on the form
  form.addEventListener("change", (event) => event.target === form && refreshOutlook());
  window.setInterval(() => document.visibilityState === "visible" && refreshOutlook(), INTERVAL_MS);
  show();
  refreshOutlook();
  return () => {
    showDevices();
    refreshOutlook();
  };
}

function show() {
  document.getElementById("one-device").hidden = isForAny();
  document.getElementById("target").hidden = !isForAny();
}

function labelSelects() {
  return form.querySelectorAll("[data-label]");
}

function outlookUrl() {
  const params = new URLSearchParams({ priority: form.elements.priority.value.trim() });
  if (isScript()) params.set("script", "1");
  if (isForAny()) {
    const { labels, pool, versions } = readTarget();
    params.set("any", "1");
    params.set("pool", pool);
    params.set("versions", versions);
    for (const [name, value] of Object.entries(labels)) params.append("labels", `${name}=${value}`);
    const { options, files } = isScript() ? { options: {}, files: [] } : readOptions();
    params.set("options", toJson(options));
    for (const { option } of files) params.append("files", option);
  } else {
    params.set("worker", form.elements.worker.value);
    params.set("runtime", form.elements.runtime.value);
  }
  return `${document.getElementById("where").dataset.outlook}?${params}`;
}

/** Set up the selects of device and version: the latter lists the versions of the selected device. Returns a function that updates both. */
function setUpDevices() {
  const { worker, runtime } = form.elements;
  const all = [...runtime.options];
  // options that the server rendered as disabled stay disabled for every kind of task
  const disabled = new Set([...worker.options, ...all].filter((option) => option.disabled));
  const texts = new Map([...worker.options].map((option) => [option, option.textContent]));
  const runtimesOf = (id) => all.filter((option) => option.dataset.worker === id);
  const usable = (id) => runtimesOf(id).filter((option) => !option.disabled);

  /** Why a device is unavailable, or "". */
  const unavailableReason = (option) => {
    if (disabled.has(option)) return "";
    if (runtimesOf(option.value).every((runtime) => disabled.has(runtime))) return worker.dataset.withoutRuntime;
    if (isScript() && option.dataset.noScripts) return option.dataset.noScripts;
    return usable(option.value).length ? "" : worker.dataset.withoutWheel;
  };
  const showDevices = () => {
    for (const option of all) option.disabled = disabled.has(option) || (isScript() && option.dataset.kind !== "wheel");
    for (const option of worker.options) {
      const reason = unavailableReason(option);
      option.disabled = disabled.has(option) || Boolean(reason);
      option.textContent = texts.get(option) + (reason ? ` (${reason})` : "");
    }
    const enabled = [...worker.options].filter((option) => !option.disabled);
    const current = enabled.find((option) => option.value === worker.value);
    const device = current ?? enabled.find((option) => option.defaultSelected) ?? enabled[0];
    worker.value = device?.value ?? "";
    document.getElementById("no-device").hidden = Boolean(device) || isScript();
    showVersions(runtime.selectedOptions[0]);
  };
  const showVersions = (preferred = null) => {
    runtime.replaceChildren(...runtimesOf(worker.value));
    const runtimes = usable(worker.value);
    // by default the newest version that works
    runtime.value = (runtimes.find((option) => option === preferred) ?? runtimes[0])?.value ?? "";
    document.getElementById("worker-hint").textContent = worker.selectedOptions[0]?.dataset.hint ?? "";
    showRuntime();
  };
  const showRuntime = () => {
    const hint = [runtime.selectedOptions[0]?.dataset.hint];
    const broken = [...runtime.options].filter((option) => option.dataset.problem);
    hint.push(...broken.map((option) => `${option.value}: ${option.dataset.problem}`));
    document.getElementById("runtime-hint").textContent = hint.filter(Boolean).join("\n");
  };
  worker.value = [...worker.options].find((option) => option.defaultSelected && !option.disabled)?.value ?? "";
  runtime.selectedIndex = -1;
  worker.addEventListener("change", () => showVersions());
  runtime.addEventListener("change", showRuntime);
  showDevices();
  return showDevices;
}
