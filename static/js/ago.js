// "3 min. ago" where a moment is recent, as long as the page is open.

const DAY_S = 86_400;
const EVERY_MS = 15_000;
/**
 * Longest first: s, name as Intl knows it.
 * @type {[number, Intl.RelativeTimeFormatUnit][]}
 */
const UNITS = [[3_600, "hour"], [60, "minute"], [1, "second"]];

/** The words for a moment so many seconds ago; null for one that is better told by its date. */
export function ago(seconds, language) {
  if (!(seconds >= -60) || seconds >= DAY_S) return null;
  const past = Math.max(0, seconds);
  const [length, unit] = UNITS.find(([least]) => past >= least) ?? UNITS.at(-1);
  const words = new Intl.RelativeTimeFormat(language, { style: "short" });
  return words.format(-Math.floor(past / length), unit);
}

/** How long something lasts, as `moments.elapsed` of the server says it: "24 s", "3 min 12 s", "1 h 5 min". */
export function elapsed(seconds) {
  const total = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(total / 3_600), Math.floor(total / 60) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${total % 60} s` : `${total} s`;
}

/** ms that the browser's clock is ahead of the server's: the least seen, which has the least delay */
let aheadMs = Infinity;

/** Write how long it is since the moments below `root` that ask for it, by the server's clock. */
export function tellElapsed(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    if (element.dataset.now) aheadMs = Math.min(aheadMs, Date.now() - Date.parse(element.dataset.now));
    // true only now; without it two answers that say the same are the same
    delete element.dataset.now;
    const text = elapsed((Date.now() - aheadMs - Date.parse(element.dataset.since)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Write these words into the times below `root` that ask for them; the date goes to the tooltip. */
export function tellAgo(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-ago]")) {
    // the date in the reader's zone, which `localizeTimes` wrote
    element.dataset.ago ||= element.textContent;
    const words = ago((now - Date.parse(element.dateTime)) / 1000, document.documentElement.lang);
    const text = words ?? element.dataset.ago;
    if (element.textContent !== text) element.textContent = text;
    const tooltip = [element.dataset.ago, ...element.title.split(" · ").slice(-1)].join(" · ");
    if (element.title !== tooltip) element.title = tooltip;
  }
}

/** Keep the words true while the page is looked at. */
export function keepAgo() {
  tellAgo(document);
  setInterval(() => {
    if (document.visibilityState === "visible") tellAgo(document);
  }, EVERY_MS);
}
