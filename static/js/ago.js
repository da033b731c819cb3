// Relative times ("3 min. ago") and elapsed times, updated while the page is open.

const DAY_S = 86_400;
const INTERVAL_MS = 15_000;
/**
 * Units, longest first: length in s, and the name that Intl.RelativeTimeFormat takes.
 * @type {[number, Intl.RelativeTimeFormatUnit][]}
 */
const UNITS = [[3_600, "hour"], [60, "minute"], [1, "second"]];

/** The text for a moment `seconds` ago; null if the date is shown instead (older than a day, or in the future). */
export function relativeTime(seconds, language) {
  if (!(seconds >= -60) || seconds >= DAY_S) return null;
  const past = Math.max(0, seconds);
  const [length, unit] = UNITS.find(([least]) => past >= least) ?? UNITS.at(-1);
  const words = new Intl.RelativeTimeFormat(language, { style: "short" });
  return words.format(-Math.floor(past / length), unit);
}

/** A duration in the format of the server's `moments.elapsed`: "24 s", "3 min 12 s", "1 h 5 min". */
export function elapsed(seconds) {
  const total = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(total / 3_600), Math.floor(total / 60) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${total % 60} s` : `${total} s`;
}

/** Offset of the browser's clock against the server's, ms: the minimum of all samples, which has the least network delay. */
let aheadMs = Infinity;

/** Update the elapsed times below `root` (`data-since`), measured by the server's clock. */
export function updateElapsedTimes(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    if (element.dataset.now) aheadMs = Math.min(aheadMs, Date.now() - Date.parse(element.dataset.now));
    // it was valid at the response only; without it, two responses with the same content are equal
    delete element.dataset.now;
    const text = elapsed((Date.now() - aheadMs - Date.parse(element.dataset.since)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Write relative times into the elements below `root` with `data-ago`; the date moves to the tooltip. */
export function updateRelativeTimes(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-ago]")) {
    // the date in the user's time zone, which `localizeTimes` wrote
    element.dataset.ago ||= element.textContent;
    const words = relativeTime((now - Date.parse(element.dateTime)) / 1000, document.documentElement.lang);
    const text = words ?? element.dataset.ago;
    if (element.textContent !== text) element.textContent = text;
    const tooltip = [element.dataset.ago, ...element.title.split(" · ").slice(-1)].join(" · ");
    if (element.title !== tooltip) element.title = tooltip;
  }
}

/** Update relative times at an interval while the page is visible. */
export function keepRelativeTimes() {
  updateRelativeTimes(document);
  setInterval(() => {
    if (document.visibilityState === "visible") updateRelativeTimes(document);
  }, INTERVAL_MS);
}
