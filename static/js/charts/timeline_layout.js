// The timeline without a canvas: which bars belong to an operator, windows of time, what to fetch.

/** Zooming in further shows nothing: clocks tick in ns at best. Half a µs. */
const LEAST_SPAN_US = 0.5;
/** Finer bars are worth a request when less than this part of the fetched time is seen. */
const FINER_BELOW = 0.4;

/** Index of the first row of each bar in `rows`. */
export function firstsOf(counts) {
  const firsts = new Int32Array(counts.length);
  let next = 0;
  counts.forEach((count, bar) => {
    firsts[bar] = next;
    next += count;
  });
  return firsts;
}

/** For each operator's row the bars that it is in, in order of lanes. */
export function barsByRow(counts, rows) {
  const found = new Map();
  let at = 0;
  counts.forEach((count, bar) => {
    for (let each = 0; each < count; each += 1, at += 1) {
      const bars = found.get(rows[at]);
      if (!bars) found.set(rows[at], [bar]);
      else if (bars.at(-1) !== bar) bars.push(bar);
    }
  });
  return found;
}

/**
 * A window `[low, high]` within `[0, span]`, moved inside where it leaves.
 * @param {number[]} view
 * @param {number} span
 */
export function within([low, high], span) {
  const size = Math.min(Math.max(high - low, LEAST_SPAN_US), span);
  const start = Math.max(0, Math.min(low, span - size));
  return [start, start + size];
}

/**
 * The window made larger or smaller by `factor`, around its middle or a time in it.
 * @param {number[]} view
 * @param {number} factor
 * @param {number} span
 * @param {number | null} around
 */
export function zoomed([low, high], factor, span, around = null) {
  const middle = around !== null && around >= low && around <= high ? around : (low + high) / 2;
  const half = (Math.max(high - low, LEAST_SPAN_US) * factor) / 2;
  return within([middle - half, middle + half], span);
}

/**
 * The window moved by a part of itself.
 * @param {number[]} view
 * @param {number} part
 * @param {number} span
 */
export function panned([low, high], part, span) {
  const way = (high - low) * part;
  return within([low + way, high + way], span);
}

/**
 * The window with which `[start, end]` is seen: as it is, else moved so that this is its middle.
 * @param {number[]} view
 * @param {number[]} bar
 * @param {number} span
 */
export function showing([low, high], [start, end], span) {
  if (start >= low && end <= high) return [low, high];
  const size = Math.max(high - low, (end - start) * 1.2);
  const middle = (start + end) / 2;
  return within([middle - size / 2, middle + size / 2], span);
}

/**
 * What to fetch for a view: null if the bars at hand will do, "whole" for the first ones, else a
 * window around the view. `held` is the window of the bars at hand, `merged` whether bars are merged.
 */
export function toFetch(view, { held, merged, span, wholeMerged }) {
  const size = view[1] - view[0];
  const inside = view[0] >= held[0] - 1e-6 && view[1] <= held[1] + 1e-6;
  const isWhole = held[0] <= 0 && held[1] >= span;
  if (inside && (!merged || size >= (held[1] - held[0]) * FINER_BELOW)) return null;
  if (!wholeMerged || size >= span * FINER_BELOW) return isWhole ? null : "whole";
  return [Math.max(0, view[0] - size / 2), Math.min(span, view[1] + size / 2)];
}
