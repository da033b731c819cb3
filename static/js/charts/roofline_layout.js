// Layout of the roofline: the range of its axes, its lines, label positions and point sizes. No canvas.

/** Diameters of points. */
const MIN_PX = 7;
const MAX_PX = 34;
const LABEL_PX = 16;

/** The powers of ten around all positive values: `[low, high]`. */
export function decades(values) {
  const valid = values.filter((value) => value > 0 && Number.isFinite(value));
  if (!valid.length) return [1, 10];
  const low = valid.reduce((min, value) => Math.min(min, value), Infinity);
  const high = valid.reduce((max, value) => Math.max(max, value), 0);
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.ceil(Math.log10(high) - 1e-9);
  return [10 ** first, 10 ** Math.max(last, first + 1)];
}

/** The arithmetic intensity, FLOP/byte, above which peak performance is the limit. */
const ridge = (flops, bytesPerS) => flops / bytesPerS;

/**
 * The ceilings of the roofline between `low` and `high` FLOP/byte: [{kind, name, points}]. The memory line
 * rises to the highest compute line; each compute line starts where the memory line reaches it.
 * @param {{roofs: any[], bytes_s: number}} peaks
 * @param {number[]} range
 */
export function ceilingLines({ roofs, bytes_s: bytesPerS }, [low, high]) {
  const peaks = roofs.filter(({ flops }) => flops > 0);
  if (!(bytesPerS > 0) || !peaks.length) return [];
  const highest = Math.max(...peaks.map(({ flops }) => flops));
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
    ...peaks.map(({ name, flops }) => ({
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
 * The shift of the label above each line so that labels do not overlap, pixels, positive downwards.
 * tops: the y of the lines. If lines are close, the lowest has its label below it, and the labels of
 * the others move up.
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

/** The diameter of a point, whose area is proportional to its time. */
export function diameter(us, longest) {
  return Math.max(MIN_PX, MAX_PX * Math.sqrt(longest > 0 ? us / longest : 0));
}
