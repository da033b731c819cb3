// The chart of memory over time: tensors as rectangles over time (x) and used addresses (y), and
// above them a curve of the bytes in use.

import { axis, bytesAxis, fixedGrid, zooms } from "../charts/palette.js";
import { axisMicro, clean, micro, unitOfMicro } from "../charts/text.js";
import { ZoomedChart, clipped } from "../charts/zoomed.js";
import { bytesize, fill } from "../format.js";

const LEFT_PX = 76;
const RIGHT_PX = 28;
const CURVE = { top: 26, height: 96 };
const SPACE_TOP_PX = 156;
const BOTTOM_PX = 76;
const HEIGHT_PX = 520;

export class FlowChart extends ZoomedChart {
  constructor({ data, words, chart, echarts, parts }) {
    super(chart, Math.max(data.end, 1e-3), parts.tools);
    this.data = data;
    this.words = words;
    this.echarts = echarts;
    this.length = data.names.length;
    this.height = HEIGHT_PX;
    // the curve of the bytes in use remains if a search finds no tensor
    this.isEmpty = false;
  }

  option(colours) {
    const { data, span, words } = this;
    const time = axisMicro(data.end);
    const x = (more) =>
      axis(colours, {
        type: "value",
        min: 0,
        max: span,
        axisLabel: { color: colours.soft, hideOverlap: true, alignMaxLabel: "right", formatter: time },
        ...more,
      });
    const zoom = { xAxisIndex: [0, 1], filterMode: "none", startValue: this.view[0], endValue: this.view[1] };
    this.paints = { at_peak: colours.bar, other: colours.strong, edge: colours.surface };
    return {
      animation: false,
      grid: [
        fixedGrid({ left: LEFT_PX, right: RIGHT_PX, ...CURVE }),
        fixedGrid({ left: LEFT_PX, right: RIGHT_PX, top: SPACE_TOP_PX, bottom: BOTTOM_PX }),
      ],
      xAxis: [
        x({ gridIndex: 0, axisLabel: { show: false }, splitLine: { show: false } }),
        x({ gridIndex: 1, name: words.since, nameLocation: "middle", nameGap: 26, splitLine: { show: false } }),
      ],
      yAxis: [bytesAxis(colours, data.peak.bytes, 0), bytesAxis(colours, data.used, 1)],
      dataZoom: zooms(colours, zoom),
      series: [this.curve(colours), this.rectangles(colours)],
    };
  }

  curve(colours) {
    const { data, words } = this;
    return {
      type: "line",
      name: words.held,
      step: "end",
      symbol: "none",
      silent: true,
      lineStyle: { color: colours.bar, width: 1.5 },
      areaStyle: { color: colours.bar, opacity: 0.25 },
      data: data.curve,
      markLine: this.peakLine(colours, fill(words.peak, { size: bytesize(data.peak.bytes) })),
    };
  }

  peakLine(colours, label) {
    const { at } = this.data.peak;
    if (at === null) return {};
    return {
      silent: true,
      symbol: ["none", "none"],
      lineStyle: { color: colours.bad, type: "solid" },
      // aligned so that the label stays inside the chart
      label: { show: Boolean(label), color: colours.ink, align: at > this.span / 2 ? "right" : "left", formatter: () => label },
      data: [{ xAxis: at }],
    };
  }

  rectangles(colours) {
    const { data } = this;
    const line = this.peakLine(colours, "");
    const breaks = data.regions.filter(([address]) => address > 0).map(([address]) => ({
      yAxis: address,
      lineStyle: { color: colours.strong, type: "dashed" },
      label: { show: false },
    }));
    return {
      id: "tensors",
      type: "custom",
      xAxisIndex: 1,
      yAxisIndex: 1,
      progressive: 0,
      clip: true,
      emphasis: { disabled: true },
      encode: { x: [0, 1], y: [2, 3] },
      data: data.names.map((_, item) => [
        this.data.start[item],
        this.data.start[item] + data.length[item],
        data.place[item],
        data.place[item] + data.size[item],
      ]),
      renderItem: (params, api) => this.draw(params, api),
      markLine: { silent: true, symbol: ["none", "none"], ...line, data: [...(line.data ?? []), ...breaks] },
    };
  }

  draw(params, api) {
    const item = params.dataIndex;
    const [left, bottom] = api.coord([api.value(0), api.value(2)]);
    const [right, top] = api.coord([api.value(1), api.value(3)]);
    const shape = this.echarts.graphic.clipRectByRect(
      { x: left, y: top, width: Math.max(right - left, 1), height: Math.max(bottom - top, 1) },
      params.coordSys,
    );
    if (!shape) return undefined;
    const isAtPeak = this.data.at_peak[item];
    const { paints } = this;
    // the outline of a small rectangle would cover it
    const hasEdge = shape.width > 4 && shape.height > 4;
    return {
      type: "rect",
      shape,
      style: {
        fill: isAtPeak ? paints.at_peak : paints.other,
        stroke: paints.edge,
        lineWidth: hasEdge ? 0.5 : 0,
      },
    };
  }

  describe(item) {
    const { data, words } = this;
    const start = data.start[item];
    const end = start + data.length[item];
    const unit = unitOfMicro([end]);
    const life = fill(words.life, { start: micro(start, unit), end: micro(end, unit), time: micro(data.length[item]) });
    const lines = [
      clean(data.names[item]) || words.unnamed,
      fill(words.tensor, { size: bytesize(data.size[item]), shape: clean(data.shape[item], 60) }),
      life,
      fill(words.place, { address: data.address[item] }),
    ];
    return data.at_peak[item] ? [...lines, words.alive] : lines;
  }

  rowOf() {
    return null;
  }

  find() {
    return [];
  }

  fromEvent(event) {
    return event.seriesId === "tensors" && event.componentType === "series" ? event.dataIndex : -1;
  }

  rectsOf(item) {
    const { chart, data } = this;
    const at = (x, y) => chart.convertToPixel({ xAxisIndex: 1, yAxisIndex: 1 }, [x, y]);
    const [left, bottom] = at(this.data.start[item], data.place[item]);
    const [right, top] = at(this.data.start[item] + data.length[item], data.place[item] + data.size[item]);
    return clipped([left, top, right, bottom], [LEFT_PX, chart.getWidth() - RIGHT_PX]);
  }

  rangeOf(item) {
    return [this.data.start[item], this.data.start[item] + this.data.length[item]];
  }
}
