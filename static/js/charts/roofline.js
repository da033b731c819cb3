// The roofline: FLOP/s over FLOP/byte of each operator, with the limits of memory bandwidth and peak performance.

import { fill, scaled } from "../format.js";
import { COLOURED_TYPES, axis, styleOf } from "./palette.js";
import { decades, diameter, labelShifts, ceilingLines } from "./roofline_layout.js";
import { clean, describeOperator } from "./text.js";

const GRID = { left: 84, right: 24, top: 44, bottom: 50 };
const NARROW_PX = 640;

export function rooflineChart({ data, operators, words, chart }) {
  const order = data.rows.map((_, point) => point).sort((a, b) => data.intensity[a] - data.intensity[b] || a - b);
  const items = new Map(order.map((point, item) => [data.rows[point], item]));
  const peaks = data.roofs.map(({ flops }) => flops);
  const intensities = decades([...data.intensity, ...peaks.map((flops) => flops / data.bytes_s)]);
  const lines = ceilingLines(data, intensities);
  const speeds = decades([...data.flops, ...lines.flatMap(({ points }) => points.map(([, flops]) => flops))]);
  const longest = data.us.reduce((max, us) => Math.max(max, us), 0);
  const pointOf = (item) => [data.intensity[order[item]], data.flops[order[item]]];

  function lineName({ kind, name, points }) {
    const value = kind === "memory" ? scaled(data.bytes_s, "B/s") : scaled(points[0][1], "FLOP/s");
    if (!data.measured) return chart.getWidth() < NARROW_PX ? value : `${words.best} ${value}`;
    return `${kind === "memory" ? words.copy_roof : clean(name, 30)} ${value}`;
  }

  /** Items by series: one series for each type with its own colour, one for all other types. */
  const groups = new Map();
  order.forEach((point, item) => {
    const rank = operators.rankOf(data.rows[point]);
    const group = rank >= 0 && rank < COLOURED_TYPES ? rank : COLOURED_TYPES;
    if (groups.has(group)) groups.get(group).push(item);
    else groups.set(group, [item]);
  });
  const ranks = [...groups.keys()].sort((a, b) => a - b);
  const nameOf = (rank) => (rank < COLOURED_TYPES ? clean(operators.typeName(operators.order[rank]), 40) : words.others);

  function pointSeries(rank, colours) {
    const { colour, symbol } = styleOf(rank, colours);
    return {
      type: "scatter",
      name: nameOf(rank),
      symbol,
      progressive: 0,
      emphasis: { disabled: true },
      itemStyle: { color: colour, opacity: 0.75, borderColor: colours.surface, borderWidth: 0.5 },
      symbolSize: (_, { dataIndex }) => diameter(data.us[order[groups.get(rank)[dataIndex]]], longest),
      data: groups.get(rank).map(pointOf),
    };
  }

  /** The vertical shift of the label of each line, pixels, by its index in `lines`. */
  function shifts() {
    const height = chart.getHeight() - GRID.top - GRID.bottom;
    const [low, high] = speeds.map(Math.log10);
    const computeLines = lines.filter(({ kind }) => kind === "compute");
    const tops = computeLines.map(({ points }) => (height * (high - Math.log10(points[0][1]))) / (high - low));
    const computeShifts = labelShifts(tops);
    return lines.map((line) => computeShifts[computeLines.indexOf(line)] ?? 0);
  }

  function lineSeries(line, { colours, shift }) {
    return {
      type: "line",
      silent: true,
      symbol: "none",
      lineStyle: { color: data.measured ? colours.bad : colours.soft, width: 2, type: data.measured ? "solid" : "dashed" },
      data: line.kind === "memory" ? [...line.points].reverse() : line.points,
      endLabel: {
        show: true,
        formatter: lineName(line),
        color: colours.ink,
        // the alignments keep the labels of the memory and compute lines apart
        align: line.kind === "memory" ? "left" : "right",
        verticalAlign: line.kind === "memory" ? "top" : "bottom",
        offset: line.kind === "memory" ? [2, 8] : [-6, shift - 4],
      },
    };
  }

  return {
    length: order.length,
    option: (colours, lineShifts = shifts()) => ({
      animation: false,
      grid: GRID,
      legend: {
        data: ranks.map(nameOf),
        top: 0,
        left: 0,
        type: "scroll",
        selectedMode: false,
        textStyle: { color: colours.ink },
        pageTextStyle: { color: colours.soft },
        pageIconColor: colours.accent,
        pageIconInactiveColor: colours.line,
      },
      xAxis: axis(colours, {
        type: "log",
        min: intensities[0],
        max: intensities[1],
        name: words.intensity,
        nameLocation: "middle",
        nameGap: 30,
      }),
      yAxis: axis(colours, {
        type: "log",
        min: speeds[0],
        max: speeds[1],
        axisLabel: { color: colours.soft, formatter: (value) => scaled(value, "FLOP/s") },
      }),
      series: [...ranks.map((rank) => pointSeries(rank, colours)), ...lines.map((line, i) => lineSeries(line, { colours, shift: lineShifts[i] }))],
    }),
    describe: (item) => [
      ...describeOperator(operators, data.rows[order[item]], words),
      fill(words.point, { intensity: scaled(pointOf(item)[0], "FLOP/byte"), speed: scaled(pointOf(item)[1], "FLOP/s") }),
    ],
    rectsOf: (item) => {
      const [x, y] = chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, pointOf(item));
      const size = diameter(data.us[order[item]], longest) + 4;
      return [[x - size / 2, y - size / 2, size, size]];
    },
    rowOf: (item) => data.rows[order[item]],
    find: (row) => (items.has(row) ? [items.get(row)] : []),
    fromEvent: ({ componentType, seriesIndex, dataIndex }) =>
      componentType === "series" && seriesIndex < ranks.length ? groups.get(ranks[seriesIndex])[dataIndex] : -1,
    *tableRows() {
      const byTime = data.rows.map((_, point) => point).sort((a, b) => data.us[b] - data.us[a]);
      for (const point of byTime) {
        yield [
          clean(operators.names[data.rows[point]]),
          clean(operators.typeOf(data.rows[point])),
          scaled(data.intensity[point], "FLOP/byte"),
          scaled(data.flops[point], "FLOP/s"),
          { us: data.us[point] },
        ];
      }
    },
    tableCount: order.length,
  };
}
