// Which entries of the palette match a query. No DOM.

/** Entries of a group that are listed at once. */
export const MOST = 8;

/**
 * The first entries that contain every word of `query` in label, hint or group; those whose label begins with
 * the query come first, then those whose label has every word, otherwise the order stays.
 */
export function matching(entries, query, most = MOST) {
  const wanted = query.trim().toLowerCase();
  const words = wanted.split(/\s+/).filter(Boolean);
  const ranked = [[], [], []];
  for (const entry of entries) {
    // once for each of perhaps 100,000 operators
    entry.lower ??= { label: entry.label.toLowerCase(), text: `${entry.label} ${entry.hint} ${entry.group}`.toLowerCase() };
    const { label, text } = entry.lower;
    if (!words.every((word) => text.includes(word))) continue;
    ranked[label.startsWith(wanted) ? 0 : words.every((word) => label.includes(word)) ? 1 : 2].push(entry);
    if (ranked[0].length >= most) break;
  }
  return ranked.flat().slice(0, most);
}

/** The number of a task in a query such as `#12` or `12`; null for other queries. */
export function taskNumber(query) {
  const number = /^#?(\d{1,15})$/.exec(query.trim())?.[1];
  return number ? Number(number) : null;
}
