// Where a task is to run: one device and version, or any device that matches; and its queue now.

import { readNumber } from "./numbers.js";
import { makeRefresher } from "./refresher.js";

const INTERVAL_MS = 15_000;

const form = document.getElementById("new-task");

export const isForAny = () => form.elements.where.value === "any";

/** What any device must have, as the server takes it. */
export function readTarget() {
  const target = { labels: {}, pool: form.elements.pool?.value ?? "", versions: form.elements.versions.value.trim() };
  for (const select of labelSelects()) {
    if (select.value) target.labels[select.dataset.label] = select.value;
  }
  return target;
}

/** Worker, runtime, target, priority and title of the request. */
export function readWhere() {
  const { worker, runtime, priority, title } = form.elements;
  const named = { worker: worker.value ? Number(worker.value) : null, runtime: runtime.value, target: null };
  return {
    ...(isForAny() ? { worker: null, runtime: "", target: readTarget() } : named),
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

export function setUpWhere() {
  setUpDevices();
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

/** Versions of one device; the select holds only those of the chosen one. */
function setUpDevices() {
  const { worker, runtime } = form.elements;
  const all = [...runtime.options];
  const usable = (id) => all.filter((option) => option.dataset.worker === id && !option.disabled);

  for (const option of worker.options) {
    if (option.disabled || usable(option.value).length) continue;
    option.disabled = true;
    option.textContent += ` (${worker.dataset.withoutRuntime})`;
  }
  const showVersions = () => {
    runtime.replaceChildren(...all.filter((option) => option.dataset.worker === worker.value));
    // the newest that works
    runtime.value = usable(worker.value).at(-1)?.value ?? "";
    document.getElementById("worker-hint").textContent = worker.selectedOptions[0]?.dataset.hint ?? "";
    showRuntime();
  };
  const showRuntime = () => {
    const hint = [runtime.selectedOptions[0]?.dataset.hint];
    const broken = [...runtime.options].filter((option) => option.dataset.problem);
    hint.push(...broken.map((option) => `${option.value}: ${option.dataset.problem}`));
    document.getElementById("runtime-hint").textContent = hint.filter(Boolean).join("\n");
  };
  const enabled = [...worker.options].filter((option) => !option.disabled);
  const first = enabled.find((option) => option.defaultSelected) ?? enabled[0];
  worker.value = first?.value ?? "";
  document.getElementById("no-device").hidden = Boolean(first);
  worker.addEventListener("change", showVersions);
  runtime.addEventListener("change", showRuntime);
  showVersions();
}
