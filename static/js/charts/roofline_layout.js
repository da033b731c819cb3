// The roofline without a canvas: the extent of its axes, its roofs, the size of points.

const LEAST_PX = 7;
const MOST_PX = 34;
const LABEL_PX = 16;

/** Powers of ten around all values: `[low, high]`. */
export function decades(values) {
  const known = values.filter((value) => value > 0 && Number.isFinite(value));
  if (!known.length) return [1, 10];
  const low = known.reduce((least, value) => Math.min(least, value), Infinity);
  const high = known.reduce((most, value) => Math.max(most, value), 0);
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.ceil(Math.log10(high) - 1e-9);
  return [10 ** first, 10 ** Math.max(last, first + 1)];
}

/** Where computing becomes the limit, FLOP/byte. */
export const ridge = (flops, bytesPerS) => flops / bytesPerS;

/**
 * Lines of the roofs between `low` and `high` FLOP/byte: `{name, points}`. The memory's slope goes up
 * to the highest roof; each compute roof starts where the slope reaches it.
 * @param {{roofs: any[], bytes_s: number}} peaks
 * @param {number[]} range
 */
export function roofLines({ roofs, bytes_s: bytesPerS }, [low, high]) {
  const known = roofs.filter(({ flops }) => flops > 0);
  if (!(bytesPerS > 0) || !known.length) return [];
  const highest = Math.max(...known.map(({ flops }) => flops));
  const top = Math.min(ridge(highest, bytesPerS), high);
  const slope = {
    kind: "memory",
    name: "",
    points: [
      [low, low * bytesPerS],
      [top, top * bytesPerS],
    ],
  };
  return [
    slope,
    ...known.map(({ name, flops }) => ({
      kind: "compute",
      name,
      points: [
        [Math.max(low, Math.min(ridge(flops, bytesPerS), high)), flops],
        [high, flops],
      ],
    })),
  ];
}

/**
 * How far the label above each line moves down so that no two overlap, pixels; `tops` are the lines'.
 * Of lines that are close, the lowest has its label below it, and those above push theirs up.
 */
export function labelShifts(tops) {
  const shifts = tops.map(() => 0);
  const lowestFirst = tops.map((_, line) => line).sort((a, b) => tops[b] - tops[a]);
  const [lowest, next] = lowestFirst;
  const isBelow = next !== undefined && tops[lowest] - tops[next] < LABEL_PX;
  if (isBelow) shifts[lowest] = LABEL_PX + 6;
  let room = Infinity;
  for (const line of isBelow ? lowestFirst.slice(1) : lowestFirst) {
    room = Math.min(tops[line], room - LABEL_PX);
    shifts[line] = room - tops[line];
  }
  return shifts;
}

/** Diameter of a point whose area tells its share of the time. */
export function diameter(us, largest) {
  return Math.max(LEAST_PX, MOST_PX * Math.sqrt(largest > 0 ? us / largest : 0));
}
