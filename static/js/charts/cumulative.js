// The cumulative curve: the share of the total time of the N slowest operators.

import { fill, percent } from "../format.js";
import { axis, orderAxis } from "./palette.js";
import { clean, describeOperator } from "./text.js";

const GRID = { left: 56, right: 20, top: 14, bottom: 46 };

/** Indices of the points to draw of a curve, at most about two per pixel; the last point is included. */
export function downsample(length, width) {
  const step = Math.max(1, Math.floor(length / Math.max(1, 2 * width)));
  const indices = [];
  for (let index = 0; index < length; index += step) indices.push(index);
  if (length && indices.at(-1) !== length - 1) indices.push(length - 1);
  return indices;
}

export function cumulativeChart({ data, operators, words, chart }) {
  const { rows, us, share } = data;
  const ranks = new Map(rows.map((row, rank) => [row, rank]));
  const total = share.length && share.at(-1) > 0;
  const pixel = (rank) => chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [rank + 1, share[rank]]);
  return {
    length: total ? rows.length : 0,
    option: (colours) => ({
      animation: false,
      grid: GRID,
      xAxis: orderAxis(colours, { min: 0, max: rows.length, name: words.slowest_operators }),
      yAxis: axis(colours, {
        type: "value",
        min: 0,
        max: 1,
        axisLabel: { color: colours.soft, formatter: percent },
      }),
      series: [
        {
          type: "line",
          symbol: "none",
          emphasis: { disabled: true },
          lineStyle: { color: colours.bar, width: 2.5 },
          areaStyle: { color: colours.bar, opacity: 0.14 },
          data: [[0, 0], ...downsample(rows.length, chart.getWidth()).map((rank) => [rank + 1, share[rank]])],
          markLine: {
            silent: true,
            symbol: ["none", "none"],
            label: { color: colours.ink, position: "insideEndBottom", formatter: ({ name }) => name },
            lineStyle: { color: colours.warn, type: "dashed" },
            data: data.milestones.map(([part, number]) => [
              { name: fill(words.milestone, { number, share: percent(part) }), coord: [0, part] },
              { coord: [rows.length, part] },
            ]),
          },
        },
      ],
    }),
    describe: (rank) => [
      ...describeOperator(operators, rows[rank], words),
      fill(words.rank, { number: rank + 1, share: percent(share[rank]) }),
    ],
    rectsOf: (rank) => {
      const [x, y] = pixel(rank);
      return [[x - 5, y - 5, 10, 10]];
    },
    rowOf: (rank) => rows[rank],
    find: (row) => (ranks.has(row) ? [ranks.get(row)] : []),
    fromPoint: (x, y) => {
      if (!chart.containPixel({ gridIndex: 0 }, [x, y])) return -1;
      const rank = Math.round(chart.convertFromPixel({ xAxisIndex: 0 }, x)) - 1;
      return Math.max(0, Math.min(rank, rows.length - 1));
    },
    *tableRows() {
      for (let rank = 0; rank < rows.length; rank += 1) {
        yield [clean(operators.names[rows[rank]]), String(rank + 1), { us: us[rank] }, percent(share[rank])];
      }
    },
    tableCount: rows.length,
  };
}
