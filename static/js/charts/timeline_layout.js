// Layout of the timeline: the bars of each operator, zooming and panning of time windows, and which
// bars to fetch. No canvas.

/** The smallest window: clocks resolve ns at best. */
const MIN_SPAN_US = 0.5;
/** Finer bars are requested when the view is smaller than this fraction of the fetched window. */
const FINER_BELOW = 0.4;

/** The index in `rows` of the first operator of each bar. counts: operators per bar. */
export function firstsOf(counts) {
  const firsts = new Int32Array(counts.length);
  let next = 0;
  counts.forEach((count, bar) => {
    firsts[bar] = next;
    next += count;
  });
  return firsts;
}

/** A Map from the row of each operator to its bars, in the order of lanes. */
export function barsByRow(counts, rows) {
  const byRow = new Map();
  let index = 0;
  counts.forEach((count, bar) => {
    for (const end = index + count; index < end; index += 1) {
      const bars = byRow.get(rows[index]);
      if (!bars) byRow.set(rows[index], [bar]);
      else if (bars.at(-1) !== bar) bars.push(bar);
    }
  });
  return byRow;
}

/**
 * The window `[low, high]`, moved and shrunk to fit into `[0, span]`.
 * @param {number[]} view
 * @param {number} span
 */
export function within([low, high], span) {
  const size = Math.min(Math.max(high - low, MIN_SPAN_US), span);
  const start = Math.max(0, Math.min(low, span - size));
  return [start, start + size];
}

/**
 * The window scaled by `factor` around its middle, or around the time `around` if that is inside it.
 * @param {number[]} view
 * @param {number} factor
 * @param {number} span
 * @param {number | null} around
 */
export function zoomed([low, high], factor, span, around = null) {
  const middle = around !== null && around >= low && around <= high ? around : (low + high) / 2;
  const half = (Math.max(high - low, MIN_SPAN_US) * factor) / 2;
  return within([middle - half, middle + half], span);
}

/**
 * The window moved by a fraction of its size.
 * @param {number[]} view
 * @param {number} fraction
 * @param {number} span
 */
export function panned([low, high], fraction, span) {
  const shift = (high - low) * fraction;
  return within([low + shift, high + shift], span);
}

/**
 * The window after a command: `in`, `out`, `left`, `right` or `whole`. `around`: as in `zoomed`.
 * @param {string} command
 * @param {number[]} view
 * @param {number} span
 * @param {number | null} around
 */
export function moved(command, view, span, around = null) {
  if (command === "in") return zoomed(view, 0.5, span, around);
  if (command === "out") return zoomed(view, 2, span);
  if (command === "whole") return [0, span];
  return panned(view, command === "left" ? -0.5 : 0.5, span);
}

/**
 * A window in which the bar `[start, end]` is visible: unchanged, or else centred on the bar.
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
 * The bars to fetch for a view: null if the current bars are fine enough, "whole" for the first bars of
 * the whole span, or a window around the view.
 *
 * range: the window of the current bars; merged: whether some of them are merged; wholeMerged: the same
 * for the bars of the whole span
 */
export function toFetch(view, { range, merged, span, wholeMerged }) {
  const size = view[1] - view[0];
  const inside = view[0] >= range[0] - 1e-6 && view[1] <= range[1] + 1e-6;
  const isWhole = range[0] <= 0 && range[1] >= span;
  if (inside && (!merged || size >= (range[1] - range[0]) * FINER_BELOW)) return null;
  if (!wholeMerged || size >= span * FINER_BELOW) return isWhole ? null : "whole";
  return [Math.max(0, view[0] - size / 2), Math.min(span, view[1] + size / 2)];
}

/**
 * The time in at least one of the intervals `[start, end]`, which are sorted in place.
 * @param {number[][]} intervals
 */
export function coveredTime(intervals) {
  let covered = 0;
  let last = -Infinity;
  for (const [start, end] of intervals.sort((a, b) => a[0] - b[0])) {
    covered += Math.max(0, end - Math.max(start, last));
    last = Math.max(last, end);
  }
  return covered;
}

/** The round number of µs at or above `step`: 1, 2 or 5 times a power of ten. */
export function niceStep(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= step) ?? 10);
}
