// Time by operator type: a bar for each of the largest types, and one for all others.

import { fill, percent } from "../format.js";
import { axis, styleOf } from "./palette.js";
import { axisMicro, clean, micro } from "./text.js";

const LARGEST = 12;
const BAR_PX = 26;
const AXIS_PX = 34;
const NARROW_PX = 640;

/** The bars, `{codes, us, operators}`: one for each of the `largest` types, and one for all others. */
export function barsOf({ types, us, operators }, largest = LARGEST) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const bar = (from, to) => ({
    codes: types.slice(from, to),
    us: sum(us.slice(from, to)),
    operators: sum(operators.slice(from, to)),
  });
  // a single other type gets its own bar instead of "1 other type"
  const number = types.length <= largest + 1 ? types.length : largest;
  const bars = types.slice(0, number).map((_, rank) => bar(rank, rank + 1));
  return number < types.length ? [...bars, bar(number, types.length)] : bars;
}

export function typesChart({ data, operators, words, chart }) {
  const bars = barsOf(data);
  const total = data.total || 1;
  const nameOf = ({ codes }) =>
    codes.length === 1 ? clean(operators.typeName(codes[0])) : fill(words.other_types, { number: codes.length });
  const barOfType = new Map(bars.flatMap(({ codes }, bar) => codes.map((code) => [code, bar])));
  const left = () => (chart.getWidth() < NARROW_PX ? 120 : 200);
  return {
    length: bars.length,
    height: bars.length * BAR_PX + AXIS_PX + 8,
    option: (colours) => ({
      animation: false,
      grid: { left: left(), right: 74, top: 8, bottom: AXIS_PX },
      xAxis: axis(colours, { type: "value", axisLabel: { color: colours.soft, hideOverlap: true, formatter: axisMicro(Math.max(0, ...bars.map((bar) => bar.us))) } }),
      yAxis: axis(colours, {
        type: "category",
        inverse: true,
        data: bars.map(nameOf),
        axisTick: { show: false },
        axisLabel: { color: colours.ink, width: left() - 14, overflow: "truncate", interval: 0 },
      }),
      series: [
        {
          type: "bar",
          barWidth: "68%",
          cursor: "pointer",
          emphasis: { disabled: true },
          label: {
            show: true,
            position: "right",
            color: colours.soft,
            formatter: ({ dataIndex }) => percent(bars[dataIndex].us / total),
          },
          data: bars.map(({ codes, us }) => ({
            value: us,
            itemStyle: {
              color: styleOf(codes.length === 1 ? operators.rankOfType(codes[0]) : -1, colours).colour,
            },
          })),
        },
      ],
    }),
    describe: (bar) => [
      nameOf(bars[bar]),
      fill(words.type, {
        time: micro(bars[bar].us),
        share: percent(bars[bar].us / total),
        number: bars[bar].operators,
      }),
    ],
    rectsOf: (bar) => {
      const y = chart.convertToPixel({ yAxisIndex: 0 }, bar);
      const x = chart.convertToPixel({ xAxisIndex: 0 }, bars[bar].us);
      return [[left(), y - BAR_PX * 0.4, x - left(), BAR_PX * 0.8]];
    },
    rowOf: () => null,
    find: (row) => [barOfType.get(operators.types[row])].filter((bar) => bar !== undefined),
    fromEvent: (event) => (event.componentType === "series" ? event.dataIndex : -1),
    act: (bar) => {
      const codes = new Set(bars[bar].codes);
      const rows = [...operators.types.keys()].filter((row) => codes.has(operators.types[row]));
      document.dispatchEvent(new CustomEvent("operators:filter", { detail: { rows } }));
    },
    *tableRows() {
      for (let rank = 0; rank < data.types.length; rank += 1) {
        yield [
          clean(operators.typeName(data.types[rank])),
          { us: data.us[rank] },
          percent(data.us[rank] / total),
          String(data.operators[rank]),
        ];
      }
    },
    tableCount: data.types.length,
  };
}
