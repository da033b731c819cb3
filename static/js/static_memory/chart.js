// The chart of a static memory plan: tensors as rectangles over execution order (x) and addresses (y).

import { bytesAxis, fixedGrid, orderAxis, stripes, zooms } from "../charts/palette.js";
import { clean } from "../charts/text.js";
import { ZoomedChart, clipped } from "../charts/zoomed.js";
import { bytesize, fill } from "../format.js";
import { curveOf, itemAt, itemsByRow } from "./layout.js";

const GRID = { left: 76, right: 20, top: 26, bottom: 74 };

export function staticMemoryChart(context) {
  return new StaticMemory(context);
}

class StaticMemory extends ZoomedChart {
  constructor({ data, words, chart, echarts }) {
    super(chart, Math.max(data.steps, 1), null);
    this.data = data;
    this.words = words;
    this.echarts = echarts;
    this.length = data.id.length;
    this.byRow = itemsByRow(data.row);
  }

  option(colours) {
    const { data, words } = this;
    this.paints = {
      plain: colours.bar,
      in_place: stripes(colours.bar, colours.surface, 4),
      at_peak: colours.live,
      at_peak_in_place: stripes(colours.live, colours.surface, 4),
      edge: colours.surface,
    };
    const mark = { silent: true, symbol: ["none", "none"], lineStyle: { color: colours.bad, type: "solid" } };
    const peak = { yAxis: data.peak, label: { position: "insideEndTop", color: colours.ink, formatter: () => fill(words.peak, { size: bytesize(data.peak) }) } };
    const maximum = data.moment && { xAxis: data.moment[0] + 0.5, label: { color: colours.ink, formatter: () => words.most } };
    const zoom = { xAxisIndex: 0, filterMode: "none", startValue: this.view[0], endValue: this.view[1] };
    return {
      animation: false,
      grid: fixedGrid(GRID),
      xAxis: orderAxis(colours, {
        min: 0,
        max: this.span,
        name: words.execution_order,
        nameGap: 26,
        axisLabel: { color: colours.soft, hideOverlap: true, formatter: (step) => (Number.isInteger(step) ? String(step) : "") },
      }),
      yAxis: bytesAxis(colours, data.peak),
      dataZoom: zooms(colours, zoom),
      series: [
        {
          type: "custom",
          progressive: 0,
          emphasis: { disabled: true },
          encode: { x: [0, 1], y: [2, 3] },
          data: data.id.map((_, item) => [data.from[item], data.to[item], data.low[item], data.low[item] + data.size[item]]),
          renderItem: (params, api) => this.draw(params, api),
          markLine: { ...mark, data: [peak, maximum].filter(Boolean) },
        },
        {
          type: "line",
          step: "end",
          symbol: "none",
          silent: true,
          sampling: "max",
          lineStyle: { color: colours.ink, width: 1.5 },
          itemStyle: { color: colours.ink },
          data: curveOf(data.curve, data.steps),
        },
      ],
    };
  }

  draw(params, api) {
    const { data, paints } = this;
    const item = params.dataIndex;
    const [left, top] = api.coord([data.from[item], data.low[item] + data.size[item]]);
    const [right, bottom] = api.coord([data.to[item], data.low[item]]);
    const width = Math.max(right - left, 1);
    const height = Math.max(bottom - top, 1);
    const shape = this.echarts.graphic.clipRectByRect({ x: left, y: top, width, height }, params.coordSys);
    if (!shape) return shape;
    const kind = [data.at_peak[item] ? "at_peak" : "", data.in_place[item] ? "in_place" : ""].filter(Boolean).join("_");
    const isWide = width > 3 && height > 3;
    return { type: "rect", shape, style: { fill: paints[kind || "plain"], stroke: paints.edge, lineWidth: isWide ? 1 : 0 } };
  }

  describe(item) {
    const { data, words } = this;
    const low = data.low[item];
    const name = data.name[item] ? clean(data.name[item]) : fill(words.unnamed, { id: data.id[item] });
    const operator = (code, step) => ({ name: clean(data.names[code], 60), place: step });
    return [
      name,
      fill(words.size, { size: bytesize(data.size[item]), from: low, to: low + data.size[item] }),
      fill(words.written, operator(data.first[item], data.from[item] + 1 - data.in_place[item])),
      fill(words.read, operator(data.last[item], data.to[item])),
      ...(data.in_place[item] ? [words.in_place] : []),
      ...(data.at_peak[item] ? [words.at_peak] : []),
    ];
  }

  rowOf(item) {
    return this.data.row[item] < 0 ? null : this.data.row[item];
  }

  find(row) {
    return this.byRow.get(row) ?? [];
  }

  fromPoint(x, y) {
    if (!this.chart.containPixel({ gridIndex: 0 }, [x, y])) return -1;
    const [step, address] = this.chart.convertFromPixel({ gridIndex: 0 }, [x, y]);
    return itemAt(this.data, Math.floor(step), address);
  }

  rectsOf(item) {
    const { data, chart } = this;
    const at = (step, address) => chart.convertToPixel({ gridIndex: 0 }, [step, address]);
    const [left, top] = at(data.from[item], data.low[item] + data.size[item]);
    const [right, bottom] = at(data.to[item], data.low[item]);
    return clipped([left, top, right, bottom], [GRID.left, chart.getWidth() - GRID.right]);
  }

  rangeOf(item) {
    return [this.data.from[item], this.data.to[item]];
  }
}
