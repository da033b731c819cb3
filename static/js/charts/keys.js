// Keyboard navigation between the items of a chart.

const PAGE = 10;

/** The item that a key moves to from item `from` (-1: none yet); null for other keys. */
export function nextItem(key, from, length) {
  if (!length) return null;
  const last = length - 1;
  const target = {
    ArrowRight: from + 1,
    ArrowDown: from + 1,
    ArrowLeft: from < 0 ? last : from - 1,
    ArrowUp: from < 0 ? last : from - 1,
    PageDown: from + PAGE,
    PageUp: from - PAGE,
    Home: 0,
    End: last,
  }[key];
  return target === undefined ? null : Math.max(0, Math.min(target, last));
}
