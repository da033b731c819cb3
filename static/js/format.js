// Format numbers and times for display, as `profiles/presenters/formatting.py` does on the server.

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A size in binary units: "1.5 MiB", "200 B". */
export function bytesize(bytes) {
  let step = 0;
  let value = bytes;
  while (value >= 1024 && step < SIZES.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${value.toFixed(step ? 1 : 0)} ${SIZES[step]}`;
}

/** The tick interval, a power of two, of an axis from 0 to `max` bytes. */
export const binaryStep = (max) => 2 ** Math.ceil(Math.log2(Math.max(max, 1) / 5));

/**
 * The texts of the elements with `data-word`, by its value.
 * @param {ParentNode} content of a `<template>`
 */
export function wordsOf(content) {
  const elements = /** @type {HTMLElement[]} */ ([...content.querySelectorAll("[data-word]")]);
  return Object.fromEntries(elements.map((element) => [element.dataset.word, element.textContent]));
}

/** Replace the {placeholders} of a text; one without a value stays. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => (name in values ? String(values[name]) : placeholder));
}

/** Join the non-empty sentences with spaces, or without any in Chinese. */
export function sentences(texts) {
  const isChinese = globalThis.document?.documentElement?.lang?.startsWith("zh");
  return texts.filter(Boolean).join(isChinese ? "" : " ");
}

/** A time in the user's time zone, "2026-11-21 06:30" or with seconds. */
export function localTime(iso, withSeconds, zone = chosenZone()) {
  const at = new Date(iso);
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  }).formatToParts(at);
  const fields = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  const { year, month, day, hour, minute, second } = fields;
  return `${year}-${month}-${day} ${hour}:${minute}${withSeconds ? `:${second}` : ""}`;
}

/** The time zone in the user's profile; undefined for the browser's own. */
function chosenZone() {
  return globalThis.document?.documentElement?.dataset?.timeZone || undefined;
}

const YEAR_S = 365 * 24 * 3600;

/** Set the cookie `tz` unless it already has this value. */
export function storeTimeZone(doc = document, zone = Intl.DateTimeFormat().resolvedOptions().timeZone) {
  if (!zone) return;
  const cookie = `tz=${encodeURIComponent(zone)}`;
  if (doc.cookie.split("; ").includes(cookie)) return;
  doc.cookie = `${cookie}; Path=/; Max-Age=${YEAR_S}; SameSite=Lax`;
}

/** Convert the server's UTC texts below `root` to the user's time zone; the UTC text becomes the tooltip. */
export function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    if (element.title) continue;
    const utc = element.textContent.trim();
    const withSeconds = /\d\d:\d\d:\d\d/.test(utc);
    element.title = utc;
    const local = localTime(element.dateTime, withSeconds);
    element.textContent = /\d\d:\d\d/.test(utc) ? local : local.slice(0, local.indexOf(" "));
  }
}

/**
 * Units of time: length in s, name, and the number of decimals that MegEngine's clock of 1 µs resolves.
 * @type {[number, string, number][]}
 */
const TIMES = [[1, "s", 6], [1e-3, "ms", 3], [1e-6, "µs", 0]];
/** From this value on, three digits round to the next power of ten. */
const ROUNDS_UP = 0.9995;
/** Lifts ties that binary fractions miss: 1105 µs are 1.11 ms, whatever unit they are computed from. */
const TIES_UP = 1 + 1e-12;

/**
 * The common unit for times, s, that are shown side by side: the one that fits the longest.
 * `step`: distance of neighbouring values of an axis, s.
 * @returns {{scale: number, name: string, decimals: number, least: number}}
 */
export function timeUnit(values, step = 0) {
  let max = 0;
  for (const value of values) if (Number.isFinite(value)) max = Math.max(max, Math.abs(value));
  const [scale, name, decimals] = max === 0 ? TIMES[0] : TIMES.find(([length]) => max >= length * ROUNDS_UP) ?? TIMES[TIMES.length - 1];
  const least = step > 0 ? Math.ceil(-Math.log10(step / scale) - 1e-9) : 0;
  return { scale, name, decimals, least: Math.min(decimals, Math.max(0, least)) };
}

/** A number with three significant digits and at most `most` decimals, at least `least`: "12.3", "0.012", "< 1"; blank for no number. */
export function threeDigits(value, most = 6, least = 0) {
  if (!Number.isFinite(value)) return "";
  if (value === 0) return "0";
  const wanted = 2 - Math.floor(Math.log10(Math.abs(value) / ROUNDS_UP));
  const decimals = Math.min(most, Math.max(least, wanted, 0));
  const text = (value * TIES_UP).toFixed(decimals);
  return Number(text) === 0 ? `< ${(10 ** -decimals).toFixed(decimals)}` : text;
}

/** A time, s, with three significant digits: "12.3 ms". `unit`: from `timeUnit`, for times side by side. */
export function seconds(value, unit = timeUnit([value])) {
  if (value === null || !Number.isFinite(value)) return "–";
  return `${threeDigits(value / unit.scale, unit.decimals, unit.least)} ${unit.name}`;
}

const THOUSANDS = ["", "K", "M", "G", "T", "P"];

/** A number with an SI prefix and its unit: "73 GFLOP/s". */
export function scaled(value, unit) {
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 1000 && step < THOUSANDS.length - 1) {
    rest /= 1000;
    step += 1;
  }
  return `${Number(rest.toPrecision(3))} ${THOUSANDS[step]}${unit}`.trim();
}

/** A share: "80 %", "0.4 %", "< 0.1 %". */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(share * 100).toFixed(share >= 0.0995 || share === 0 ? 0 : 1)} %`;
}
