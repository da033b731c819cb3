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
 * Units of time: length in s, name, and the number of decimals that a clock can resolve.
 * @type {[number, string, number][]}
 */
const TIMES = [[1, "s", 9], [1e-3, "ms", 6], [1e-6, "µs", 3], [1e-9, "ns", 3]];

/** The common unit for times, s, that are shown side by side: the one that fits the longest. */
export function timeUnit(values) {
  let max = 0;
  for (const value of values) if (Number.isFinite(value)) max = Math.max(max, Math.abs(value));
  if (max === 0) return TIMES[0];
  return TIMES.find(([length]) => max >= length) ?? TIMES.at(-1);
}

/** A time, s, with four significant digits: "12.35 ms". `unit`: from `timeUnit`, for times side by side. */
export function seconds(value, unit = timeUnit([value])) {
  if (value === null || !Number.isFinite(value)) return "–";
  const [scale, name, decimals] = unit;
  if (value === 0) return `0 ${name}`;
  const size = Math.abs(value / scale);
  const whole = String(Math.trunc(size)).length;
  const digits = size >= 1 ? Math.max(0, 4 - whole) : Math.min(decimals, 3 - Math.floor(Math.log10(size)));
  return `${(value / scale).toFixed(digits)} ${name}`;
}

const THOUSANDS = ["", "K", "M", "G", "T", "P"];

/** A number with an SI prefix and its unit: "72.98 GFLOP/s". */
export function scaled(value, unit) {
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 1000 && step < THOUSANDS.length - 1) {
    rest /= 1000;
    step += 1;
  }
  return `${Number(rest.toPrecision(4))} ${THOUSANDS[step]}${unit}`.trim();
}

/** A share: "80 %", "0.4 %", "< 0.1 %". */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(share * 100).toFixed(share >= 0.0995 || share === 0 ? 0 : 1)} %`;
}
