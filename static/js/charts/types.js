// Time by operator type: a bar for each of the largest, one for the rest.

import { fill, percent } from "../format.js";
import { axis, styleOf } from "./palette.js";
import { axisMicro, clean, micro } from "./text.js";

const LARGEST = 12;
const BAR_PX = 26;
const AXIS_PX = 34;
const NARROW_PX = 640;

/** The bars: `{codes, us, operators}` of the largest types, and of all others together. */
export function barsOf({ types, us, operators }, largest = LARGEST) {
  const one = (from, to) => ({
    codes: types.slice(from, to),
    us: us.slice(from, to).reduce((sum, each) => sum + each, 0),
    operators: operators.slice(from, to).reduce((sum, each) => sum + each, 0),
  });
  // "1 other type" would take the room of its name
  const shown = types.length <= largest + 1 ? types.length : largest;
  const bars = types.slice(0, shown).map((_, place) => one(place, place + 1));
  return shown < types.length ? [...bars, one(shown, types.length)] : bars;
}

export function typesPicture({ data, operators, words, chart }) {
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
    places: (bar) => {
      const y = chart.convertToPixel({ yAxisIndex: 0 }, bar);
      const x = chart.convertToPixel({ xAxisIndex: 0 }, bars[bar].us);
      return [[left(), y - BAR_PX * 0.4, x - left(), BAR_PX * 0.8]];
    },
    rowOf: () => null,
    find: (row) => [barOfType.get(operators.types[row])].filter((bar) => bar !== undefined),
    fromEvent: (event) => (event.componentType === "series" ? event.dataIndex : -1),
    act: (bar) => {
      const types = bars[bar].codes.map((code) => operators.typeName(code));
      document.dispatchEvent(new CustomEvent("operators:filter", { detail: { types } }));
    },
    *tableRows() {
      for (let place = 0; place < data.types.length; place += 1) {
        yield [
          clean(operators.typeName(data.types[place])),
          { us: data.us[place] },
          percent(data.us[place] / total),
          String(data.operators[place]),
        ];
      }
    },
    tableCount: data.types.length,
  };
}
