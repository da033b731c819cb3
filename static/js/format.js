// Numbers and times as the reader sees them; `profiles/presenters/quantities.py` does the same on the server.

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

/** A step of an axis up to `most` bytes that reads well in binary units. */
export const binaryStep = (most) => 2 ** Math.ceil(Math.log2(Math.max(most, 1) / 5));

/** Put values into the {places} of a text. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

/** Join sentences: with a space between them, in Chinese without. Empty ones are left out. */
export function sentences(texts) {
  const isChinese = globalThis.document?.documentElement?.lang?.startsWith("zh");
  return texts.filter(Boolean).join(isChinese ? "" : " ");
}

/** Time in the reader's zone, as precise as the server's text: seconds only if it had them. */
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
  const of = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  return `${of.year}-${of.month}-${of.day} ${of.hour}:${of.minute}${withSeconds ? `:${of.second}` : ""}`;
}

/** The zone that the reader chose; undefined for the browser's own. */
function chosenZone() {
  return globalThis.document?.documentElement?.dataset?.timeZone || undefined;
}

/** Turn the UTC texts that the server wrote into the reader's own time; the UTC stays as a tooltip. */
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
 * Units of time: length in s, name, and the decimals of it that a clock can tell.
 * @type {[number, string, number][]}
 */
const TIMES = [[1, "s", 9], [1e-3, "ms", 6], [1e-6, "µs", 3], [1e-9, "ns", 3]];

/** The unit for times, s, that stand side by side: the one that fits the longest of them. */
export function timeUnit(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  if (most === 0) return TIMES[0];
  return TIMES.find(([least]) => most >= least) ?? TIMES.at(-1);
}

/** A time with four significant digits: "12.35 ms"; in the unit that fits, or that of the times beside it. */
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

/** A number of base 1000 with its unit: "72.98 GFLOP/s". */
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
