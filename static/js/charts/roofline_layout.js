// The roofline without a canvas: the extent of its axes, its roofs, the size of points.

const LEAST_PX = 7;
const MOST_PX = 34;

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

/** Where computing becomes the limit, FLO/byte. */
export const ridge = (flops, bytesPerS) => flops / bytesPerS;

/**
 * Lines of the roofs between `low` and `high` FLO/byte: `{name, points}`. The memory's slope goes up
 * to the highest roof; each compute roof starts where the slope reaches it.
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

/** Diameter of a point whose area tells its share of the time. */
export function diameter(us, largest) {
  return Math.max(LEAST_PX, MOST_PX * Math.sqrt(largest > 0 ? us / largest : 0));
}
