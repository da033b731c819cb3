// Where a task is to run: one device and version, or any device that matches; and its queue now.

import { readNumber } from "../../numbers.js";
import { makeRefresher } from "../../refresher.js";
import { isScript } from "./script_form.js";

const INTERVAL_MS = 15_000;

const form = document.getElementById("new-task");

export const isForAny = () => form.elements.where.value === "any";

/** "binary" for a compiled load_and_run, "wheel" for the Python package, "" where either may run it. */
export function runtimeKind() {
  return isForAny() ? "" : (form.elements.runtime.selectedOptions[0]?.dataset.kind ?? "");
}

/** What any device must have, as the server takes it. */
export function readTarget() {
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

/** Choose what an earlier task asked for. Returns whether it can be had here. */
export function takeTarget(target) {
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

/** Returns a function that shows anew what can be chosen, for when something else is profiled. */
export function setUpWhere() {
  const showDevices = setUpDevices();
  const outlook = document.getElementById("outlook");
  const ask = makeRefresher(outlook, outlookUrl, { delayMs: 250 });
  for (const choice of form.elements.where) choice.addEventListener("change", show);
  for (const name of ["input", "change"]) {
    document.getElementById("where").addEventListener(name, (event) => {
      if (event.target.id !== "title") ask();
    });
  }
  // when it was filled with the request of an earlier task, no field tells
  form.addEventListener("change", (event) => event.target === form && ask());
  window.setInterval(() => document.visibilityState === "visible" && ask(), INTERVAL_MS);
  show();
  ask();
  return () => {
    showDevices();
    ask();
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
  const asked = new URLSearchParams({ priority: form.elements.priority.value.trim() });
  if (isScript()) asked.set("script", "1");
  if (isForAny()) {
    const { labels, pool, versions } = readTarget();
    asked.set("any", "1");
    asked.set("pool", pool);
    asked.set("versions", versions);
    for (const [name, value] of Object.entries(labels)) asked.append("labels", `${name}=${value}`);
  } else {
    asked.set("worker", form.elements.worker.value);
    asked.set("runtime", form.elements.runtime.value);
  }
  return `${document.getElementById("where").dataset.outlook}?${asked}`;
}

/** Versions of one device; the select holds only those of the chosen one. Returns what shows it all anew. */
function setUpDevices() {
  const { worker, runtime } = form.elements;
  const all = [...runtime.options];
  // what the server does not offer stays shut, whatever is profiled
  const shut = new Set([...worker.options, ...all].filter((option) => option.disabled));
  const texts = new Map([...worker.options].map((option) => [option, option.textContent]));
  const of = (id) => all.filter((option) => option.dataset.worker === id);
  const usable = (id) => of(id).filter((option) => !option.disabled);

  const whyNot = (option) => {
    if (shut.has(option)) return "";
    if (of(option.value).every((each) => shut.has(each))) return worker.dataset.withoutRuntime;
    if (isScript() && option.dataset.noScripts) return option.dataset.noScripts;
    return usable(option.value).length ? "" : worker.dataset.withoutWheel;
  };
  const showDevices = () => {
    for (const option of all) option.disabled = shut.has(option) || (isScript() && option.dataset.kind !== "wheel");
    for (const option of worker.options) {
      const why = whyNot(option);
      option.disabled = shut.has(option) || Boolean(why);
      option.textContent = texts.get(option) + (why ? ` (${why})` : "");
    }
    const enabled = [...worker.options].filter((option) => !option.disabled);
    const kept = enabled.find((option) => option.value === worker.value);
    const first = kept ?? enabled.find((option) => option.defaultSelected) ?? enabled[0];
    worker.value = first?.value ?? "";
    document.getElementById("no-device").hidden = Boolean(first) || isScript();
    showVersions(runtime.selectedOptions[0]);
  };
  const showVersions = (kept = null) => {
    runtime.replaceChildren(...of(worker.value));
    const found = usable(worker.value);
    // the newest that works
    runtime.value = (found.find((option) => option === kept) ?? found.at(-1))?.value ?? "";
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
