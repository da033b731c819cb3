// The timelines of two results, one below the other. Bars of one row of the comparison are joined by
// a band, highlighted together, and select the row.

import { startCharts } from "../../charts/show.js";
import { clean, micro, unitOfMicro } from "../../charts/text.js";
import { Timeline } from "../../charts/timeline.js";
import { fill, seconds, timeUnit } from "../../format.js";

/** Bands are drawn for this many rows, those that take the longest; every row is highlighted. */
const MOST_BANDS = 300;
const WORK_PART = 0.62;

// the constructor of Timeline calls methods of this class, so none of them is private
class ComparedTimelines extends Timeline {
  setData(data, range) {
    super.setData(data, range);
    this.places = new Map(data.numbers.map((row, place) => [row, place]));
    this.bands = this.pairs();
  }

  laneText(lane) {
    return `${lane.letter}\n${clean(lane.name, 60)}`;
  }

  /** The longest bar of each row in the baseline and in the other result, of the longest rows. */
  pairs() {
    const { data } = this;
    const length = (bar) => data.end[bar] - data.start[bar];
    const longest = (bars) => bars.reduce((most, bar) => (most === undefined || length(bar) > length(most) ? bar : most), undefined);
    const pairs = [];
    for (const row of data.numbers) {
      const bars = this.find(row).filter((bar) => data.count[bar] === 1);
      const pair = [true, false].map((isBaseline) => longest(bars.filter((bar) => this.isBaseline(bar) === isBaseline)));
      if (!pair.includes(undefined)) pairs.push(pair);
    }
    const both = ([bar, other]) => length(bar) + length(other);
    return pairs.sort((one, other) => both(other) - both(one)).slice(0, MOST_BANDS);
  }

  isBaseline(bar) {
    return this.lanes[this.data.lane[bar]].letter === "A";
  }

  option(colours) {
    /** @type {any} */
    const option = super.option(colours);
    const { data } = this;
    option.series[0].z = 3;
    option.series.push({
      type: "custom",
      silent: true,
      clip: true,
      z: 2,
      encode: { x: [1, 2, 4, 5], y: [0, 3] },
      data: this.bands.map(([bar, other]) => [data.lane[bar], data.start[bar], data.end[bar], data.lane[other], data.start[other], data.end[other]]),
      renderItem: (params, api) => this.drawBand(api, colours),
    });
    return option;
  }

  drawBand(api, colours) {
    const half = (api.size([0, 1])[1] * WORK_PART) / 2;
    const [upper, from, to, lower, otherFrom, otherTo] = [0, 1, 2, 3, 4, 5].map((place) => api.value(place));
    const [left, top] = api.coord([from, upper]);
    const [right] = api.coord([to, upper]);
    const [otherLeft, bottom] = api.coord([otherFrom, lower]);
    const [otherRight] = api.coord([otherTo, lower]);
    const points = [[left, top + half], [Math.max(right, left + 1), top + half], [Math.max(otherRight, otherLeft + 1), bottom - half], [otherLeft, bottom - half]];
    return { type: "polygon", shape: { points }, style: { fill: colours.soft, opacity: 0.22 } };
  }

  rowOf(bar) {
    const row = super.rowOf(bar);
    return row === -1 ? null : row;
  }

  /** All bars of the row of a bar, in both lanes. */
  joined(bar) {
    const row = this.rowOf(bar);
    return row === null ? [bar] : this.find(row);
  }

  describe(bar) {
    const { data, words } = this;
    const unit = unitOfMicro([data.start[bar], data.work[bar]]);
    const lane = this.lanes[data.lane[bar]];
    const values = { lane: lane.letter, start: micro(data.start[bar], unit), wait: micro(data.wait[bar], unit), work: micro(data.work[bar], unit) };
    const times = fill(words.bar, values);
    const row = this.rowOf(bar);
    if (row === null) return [fill(words.merged, { number: data.count[bar] }), times];
    const place = this.places.get(row);
    const medians = [data.baseline_s[place], data.other_s[place]];
    const both = timeUnit(medians.map((time) => time ?? 0));
    return [
      clean(data.names[place]),
      fill(words.medians, { base: seconds(medians[0], both), other: seconds(medians[1], both), letter: this.letter }),
      times,
    ];
  }

  get letter() {
    return this.lanes.find(({ letter }) => letter !== "A")?.letter ?? "";
  }

  *tableRows() {
    const { data } = this;
    for (const row of data.numbers) {
      const bars = this.find(row).filter((bar) => data.count[bar] === 1);
      const sides = [bars.find((bar) => this.isBaseline(bar)), bars.find((bar) => !this.isBaseline(bar))];
      /** @type {any[]} */
      const cells = [clean(data.names[this.places.get(row)])];
      for (const bar of sides) {
        cells.push(...(bar === undefined ? ["", ""] : [{ us: data.start[bar] }, { us: data.end[bar] - data.start[bar] }]));
      }
      yield cells;
    }
  }
}

function comparedTimelines(context) {
  const chart = new ComparedTimelines(context);
  chart.tableCount = chart.data.numbers.length;
  return chart;
}

/** selection: the selected row of the comparison, as `Frame` uses it. Returns a function that ends the timelines. */
export function startTimelines(section, selection) {
  return startCharts(section, { timelines: comparedTimelines }, { selection }).end;
}
