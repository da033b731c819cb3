// How the keyboard moves from item to item of a picture.

const PAGE = 10;

/** The item that a key leads to, null for a key that leads nowhere; `from` is -1 at the start. */
export function nextItem(key, from, length) {
  if (!length) return null;
  const last = length - 1;
  const to = {
    ArrowRight: from + 1,
    ArrowDown: from + 1,
    ArrowLeft: from < 0 ? last : from - 1,
    ArrowUp: from < 0 ? last : from - 1,
    PageDown: from + PAGE,
    PageUp: from - PAGE,
    Home: 0,
    End: last,
  }[key];
  return to === undefined ? null : Math.max(0, Math.min(to, last));
}
