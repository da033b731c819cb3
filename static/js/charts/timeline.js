// The timeline: lanes for the host's threads and the device's comp nodes, with a bar for each operator.

import { fill } from "../format.js";
import { axis, fixedGrid, stripes, visibleRange, zooms } from "./palette.js";
import { axisMicro, clean, describeOperator, micro, unitOfMicro } from "./text.js";
import { barsByRow, firstsOf, toFetch, zoomed } from "./timeline_layout.js";
import { ZoomedChart, clipped } from "./zoomed.js";

const LANE_PX = 52;
const TOP_PX = 8;
const BOTTOM_PX = 58;
const RIGHT_PX = 28;
const NARROW_PX = 640;
/** Heights of waiting and computing, as fractions of the lane; they differ, so colour is not the only distinction. */
const WAIT_PART = 0.22;
const WORK_PART = 0.62;
const PAUSE_MS = 200;
const COPY_COLOUR = "#d55e00";

export function timelineChart(context) {
  return new Timeline(context);
}

export class Timeline extends ZoomedChart {
  constructor({ data, operators, words, chart, echarts, parts, fetchMore }) {
    super(chart, Math.max(data.span, 1e-3), parts.tools);
    this.operators = operators;
    this.words = words;
    this.echarts = echarts;
    this.fetchMore = fetchMore;
    this.lanes = data.lanes;
    this.whole = data;
    /** Set by `ChartLoader`: applies a change and redraws. */
    this.redraw = (change) => change();
    this.setData(data, [0, this.span]);
    this.height = this.lanes.length * LANE_PX + TOP_PX + BOTTOM_PX;
    this.tableCount = this.length;
  }

  /** Set the bars. range: the time that they cover, µs. */
  setData(data, range) {
    this.data = data;
    this.range = range;
    this.length = data.start.length;
    this.firsts = firstsOf(data.count);
    this.bars = barsByRow(data.count, data.rows);
  }

  get left() {
    return this.chart.getWidth() < NARROW_PX ? 84 : 170;
  }

  option(colours) {
    const lanes = this.lanes.map((lane) => this.laneText(lane));
    const { data } = this;
    this.paints = {
      device: colours.bar,
      host: colours.live,
      wait: colours.strong,
      copy: stripes(COPY_COLOUR, colours.surface),
      slower: colours.bad,
      faster: colours.good,
      merged: { device: stripes(colours.bar, colours.sunken, 4), host: stripes(colours.live, colours.sunken, 4) },
    };
    const zoom = { xAxisIndex: 0, filterMode: "weakFilter", startValue: this.view[0], endValue: this.view[1] };
    return {
      animation: false,
      grid: fixedGrid({ left: this.left, right: RIGHT_PX, top: TOP_PX, bottom: BOTTOM_PX }),
      xAxis: axis(colours, { type: "value", min: 0, max: this.span, axisLabel: { color: colours.soft, hideOverlap: true, alignMaxLabel: "right", formatter: (us) => this.axisText(us) }, minInterval: 1 }),
      yAxis: axis(colours, {
        type: "category",
        data: lanes,
        inverse: true,
        axisTick: { show: false },
        axisLabel: { color: colours.soft, width: this.left - 14, overflow: "truncate", lineHeight: 15 },
      }),
      dataZoom: zooms(colours, zoom),
      series: [
        {
          type: "custom",
          progressive: 0,
          emphasis: { disabled: true },
          encode: { x: [1, 2], y: 0 },
          data: data.start.map((start, bar) => [data.lane[bar], start, data.end[bar]]),
          renderItem: (params, api) => this.draw(params, api),
        },
      ],
    };
  }

  laneText(lane) {
    return `${this.words[lane.side]}\n${clean(lane.name, 60)}`;
  }

  /** Labels have the digits that tell them apart in the visible range. */
  axisText(us) {
    const [from, to] = visibleRange(this.chart) ?? [0, this.span];
    return axisMicro(to, (to - from) / 10)(us);
  }

  draw(params, api) {
    const { data, paints } = this;
    const bar = params.dataIndex;
    const { side } = this.lanes[data.lane[bar]];
    const start = api.coord([data.start[bar], data.lane[bar]]);
    const end = api.coord([data.end[bar], data.lane[bar]]);
    const band = api.size([0, 1])[1];
    const box = params.coordSys;
    const rect = (from, to, part, fill_) => {
      const shape = this.echarts.graphic.clipRectByRect(
        { x: from, y: start[1] - (band * part) / 2, width: Math.max(to - from, 1), height: band * part },
        box,
      );
      return shape && { type: "rect", shape, style: { fill: fill_ } };
    };
    if (data.count[bar] > 1) return rect(start[0], end[0], WORK_PART, paints.merged[side]);
    const change = this.changeOf(bar);
    const work = change ? paints[change > 0 ? "slower" : "faster"] : data.copy[bar] ? paints.copy : paints[side];
    if (!data.wait[bar]) return rect(start[0], end[0], WORK_PART, work);
    const kernel = api.coord([data.start[bar] + data.wait[bar], data.lane[bar]])[0];
    const children = [rect(start[0], kernel, WAIT_PART, paints.wait)];
    if (data.work[bar]) children.push(rect(kernel, end[0], WORK_PART, work));
    return { type: "group", children: children.filter(Boolean) };
  }

  /** How an operator differs between the arms of a paired comparison, µs; 0 if it does not. */
  changeOf(bar) {
    const changes = this.operators?.changes; // the timelines of a comparison have no operators
    const row = this.lanes[this.data.lane[bar]].side === "device" ? this.rowOf(bar) : null;
    return row !== null && changes?.clear[row] ? changes.us[row] : 0;
  }

  describe(bar) {
    const { data, words } = this;
    const lane = this.lanes[data.lane[bar]];
    const unit = unitOfMicro([data.start[bar], data.wait[bar], data.work[bar]]);
    const times = fill(words.bar, {
      pass: this.whole.pass_number,
      lane: `${words[lane.side]} ${clean(lane.name, 60)}`,
      start: micro(data.start[bar], unit),
      wait: micro(data.wait[bar], unit),
      work: micro(data.work[bar], unit),
    });
    if (data.count[bar] > 1) return [fill(words.merged, { number: data.count[bar] }), times];
    const lines = describeOperator(this.operators, this.rowOf(bar), words);
    const change = this.changeOf(bar);
    if (change) lines.push(fill(words.change, { time: `${change > 0 ? "+" : "−"}${micro(Math.abs(change), unitOfMicro([Math.abs(change)]))}` }));
    return data.copy[bar] ? [...lines, times, words.copy] : [...lines, times];
  }

  rowOf(bar) {
    return this.data.count[bar] === 1 ? this.data.rows[this.firsts[bar]] : null;
  }

  find(row) {
    return this.bars.get(row) ?? [];
  }

  fromEvent(event) {
    return event.componentType === "series" ? event.dataIndex : -1;
  }

  rectsOf(bar) {
    const { data, chart } = this;
    const right = chart.getWidth() - RIGHT_PX;
    const y = chart.convertToPixel({ yAxisIndex: 0 }, data.lane[bar]);
    const from = chart.convertToPixel({ xAxisIndex: 0 }, data.start[bar]);
    const to = chart.convertToPixel({ xAxisIndex: 0 }, data.end[bar]);
    const half = (LANE_PX * WORK_PART) / 2;
    return clipped([from, y - half, to, y + half], [this.left, right]);
  }

  /** Zoom into a merged bar, until its operators have their own bars. */
  act(bar) {
    if (this.data.count[bar] > 1) this.setView(zoomed(this.rangeOf(bar), 3, this.span));
  }

  rangeOf(bar) {
    return [this.data.start[bar], this.data.end[bar]];
  }

  onZoom() {
    super.onZoom();
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.refine(), PAUSE_MS);
  }

  /** Fetch finer bars for the view if necessary; the current bars stay until they arrive. */
  async refine() {
    const { range, span, view } = this;
    const next = toFetch(view, { range, span, merged: this.data.merged, wholeMerged: this.whole.merged });
    if (next === null) return;
    if (next === "whole") {
      this.redraw(() => this.setData(this.whole, [0, span]));
      return;
    }
    const data = await this.fetchMore({ from: next[0], to: next[1] }).catch(() => null);
    if (data && view === this.view) this.redraw(() => this.setData(data, next));
  }

  *tableRows() {
    const { data } = this;
    for (let bar = 0; bar < data.start.length; bar += 1) {
      const row = this.rowOf(bar);
      yield [
        row === null ? fill(this.words.merged, { number: data.count[bar] }) : clean(this.operators.names[row]),
        clean(this.lanes[data.lane[bar]].name, 60),
        { us: data.start[bar] },
        { us: data.wait[bar] },
        { us: data.work[bar] },
      ];
    }
  }
}
