// The timeline below the table: bars of the chosen pass; a dragged range filters the table.

import { inkOn, onColours, readColours, styleOf } from "../../charts/palette.js";
import { barsByRow, coveredTime, firstsOf, moved, niceStep, zoomed } from "../../charts/timeline_layout.js";
import { axisMicro, clean, describeOperator, micro } from "../../charts/text.js";
import { fill, percent, wordsOf } from "../../format.js";
import { getJson } from "../../requests.js";
import { bindTimeline } from "../../shortcuts.js";
import { loadOperators } from "../operators.js";
import { followPass } from "./chosen_pass.js";
import { onSelect, select, selected } from "./selection.js";

const LANE_PX = 18;
const AXIS_PX = 16;
const LABEL_PX = 76;
const MOST_LANES = 4;
/** Names stand on bars from this width on. */
const NAMED_PX = 40;
/** A shorter drag is a click. */
const DRAG_PX = 4;
const PAINT_LATER_MS = 60;

class TimelineStrip {
  /** root: `#strip`; restrict(within): lists only operators for which `within(row)` is true, or all for null */
  constructor(root, data, operators, restrict) {
    this.root = root;
    this.operators = operators;
    this.restrict = restrict;
    this.canvas = root.querySelector("canvas");
    this.about = root.querySelector("[data-strip=about]");
    this.tip = root.querySelector("[data-strip=tip]");
    this.words = wordsOf(root.querySelector("template").content);
    this.range = null;
    this.show(data);
    this.#listen();
  }

  /** Draw the bars of a pass; a range is one of its times, so none is chosen. */
  show(data) {
    this.data = data;
    this.firsts = firstsOf(data.count);
    this.bars = barsByRow(data.count, data.rows);
    this.view = [0, data.span];
    // lanes of the device first: they hold the times of the table
    this.lanes = data.lanes.map((lane, number) => ({ ...lane, number })).sort((a, b) => (a.side === b.side ? a.number - b.number : a.side === "device" ? -1 : 1)).slice(0, MOST_LANES);
    this.canvas.style.height = `${AXIS_PX + this.lanes.length * LANE_PX}px`;
    if (this.range) this.restrict(null);
    this.#clear();
  }

  /** Show the whole pass, without a range. */
  #clear() {
    this.range = null;
    this.about.textContent = this.words.about;
    this.#paint();
  }

  get scale() {
    return (this.canvas.clientWidth - LABEL_PX) / (this.view[1] - this.view[0]);
  }

  #xOf(us) {
    return LABEL_PX + (us - this.view[0]) * this.scale;
  }

  #timeAt(x) {
    return this.view[0] + (Math.max(x, LABEL_PX) - LABEL_PX) / this.scale;
  }

  #rowsOf(bar) {
    return this.data.rows.slice(this.firsts[bar], this.firsts[bar] + this.data.count[bar]);
  }

  #barAt(x, y) {
    const lane = this.lanes[Math.floor((y - AXIS_PX) / LANE_PX)];
    if (!lane || x < LABEL_PX) return -1;
    const time = this.#timeAt(x);
    const slack = 2 / this.scale;
    const { lane: lanes, start, end } = this.data;
    let best = -1;
    for (let bar = 0; bar < lanes.length; bar += 1) {
      if (lanes[bar] !== lane.number || start[bar] > time + slack || end[bar] < time - slack) continue;
      if (best < 0 || end[bar] - start[bar] < end[best] - start[best]) best = bar;
    }
    return best;
  }

  #paint() {
    const { canvas, data, operators } = this;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const colours = readColours();
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    paint.font = `11px ${colours.sans}`;
    paint.textBaseline = "middle";
    this.#paintAxis(paint, colours, width, height);
    const marked = new Set(this.bars.get(selected()));
    this.lanes.forEach((lane, place) => {
      const top = AXIS_PX + place * LANE_PX;
      paint.fillStyle = colours.soft;
      paint.fillText(this.#fitted(paint, clean(`${this.words[lane.side]} ${lane.name}`, 40), LABEL_PX - 8), 4, top + LANE_PX / 2);
      paint.save();
      paint.beginPath();
      paint.rect(LABEL_PX, top, width - LABEL_PX, LANE_PX);
      paint.clip();
      for (let bar = 0; bar < data.lane.length; bar += 1) {
        if (data.lane[bar] !== lane.number) continue;
        const left = this.#xOf(data.start[bar]);
        const wide = Math.max(1, this.#xOf(data.end[bar]) - left);
        if (left > width || left + wide < LABEL_PX) continue;
        const row = data.rows[this.firsts[bar]];
        paint.fillStyle = styleOf(operators.rankOf(row), colours).colour;
        paint.globalAlpha = lane.side === "device" ? 1 : 0.6;
        paint.fillRect(left, top + 2, wide, LANE_PX - 4);
        paint.globalAlpha = 1;
        if (wide > 3) {
          paint.fillStyle = colours.surface;
          paint.fillRect(left + wide - 0.5, top + 2, 0.5, LANE_PX - 4);
        }
        if (marked.has(bar)) {
          paint.strokeStyle = colours.ink;
          paint.lineWidth = 2;
          paint.strokeRect(left, top + 1, wide, LANE_PX - 2);
        }
        if (wide >= NAMED_PX && data.count[bar] === 1) {
          paint.fillStyle = inkOn(styleOf(operators.rankOf(row), colours).colour);
          paint.fillText(this.#fitted(paint, clean(operators.names[row], 60), wide - 6), Math.max(left, LABEL_PX) + 3, top + LANE_PX / 2);
        }
      }
      paint.restore();
    });
    if (this.range) this.#paintRange(paint, colours, height);
  }

  #paintAxis(paint, colours, width, height) {
    const step = Math.max(1, niceStep((this.view[1] - this.view[0]) / Math.max(2, (width - LABEL_PX) / 110)));
    const label = axisMicro(this.view[1], step);
    paint.fillStyle = colours.soft;
    paint.strokeStyle = colours.line;
    paint.lineWidth = 1;
    for (let time = Math.ceil(this.view[0] / step) * step; time <= this.view[1]; time += step) {
      const x = Math.round(this.#xOf(time)) + 0.5;
      paint.beginPath();
      paint.moveTo(x, AXIS_PX - 3);
      paint.lineTo(x, height);
      paint.stroke();
      if (x + 60 < width) paint.fillText(label(time), x + 3, AXIS_PX / 2);
    }
  }

  #paintRange(paint, colours, height) {
    const [left, right] = this.range.map((us) => Math.max(LABEL_PX, this.#xOf(us)));
    paint.fillStyle = colours.accent;
    paint.globalAlpha = 0.18;
    paint.fillRect(left, 0, right - left, height);
    paint.globalAlpha = 1;
    paint.fillRect(left, 0, 1, height);
    paint.fillRect(right, 0, 1, height);
  }

  #fitted(paint, text, width) {
    if (paint.measureText(text).width <= width) return text;
    let length = text.length;
    while (length > 1 && paint.measureText(`${text.slice(0, length)}…`).width > width) length = Math.floor(length * 0.8);
    return `${text.slice(0, length)}…`;
  }

  /** Choose a range, µs, or none: the table lists its operators, and its sums are shown. */
  choose(range) {
    if (!range) {
      this.#clear();
      this.restrict(null);
      return;
    }
    this.range = range;
    this.#paint();
    const [from, to] = range;
    const rows = new Set();
    const byType = new Map();
    // several devices work at the same time
    const intervals = [];
    let total = 0;
    const { lane, start, end, wait, work } = this.data;
    const { side: timedSide } = this.operators;
    const timed = new Set(this.lanes.filter(({ side }) => side === timedSide).map(({ number }) => number));
    for (let bar = 0; bar < lane.length; bar += 1) {
      if (end[bar] < from || start[bar] > to) continue;
      for (const row of this.#rowsOf(bar)) rows.add(row);
      if (!timed.has(lane[bar])) continue;
      const length = end[bar] - start[bar];
      const part = length > 0 ? (Math.min(end[bar], to) - Math.max(start[bar], from)) / length : 1;
      // the host does not wait before the first kernel: it prepares it
      const time = ((work[bar] ?? 0) + (timedSide === "host" ? wait[bar] ?? 0 : 0)) * part;
      total += time;
      const last = Math.min(end[bar], to);
      intervals.push([last - time, last]);
      const type = this.operators.typeOf(this.data.rows[this.firsts[bar]]);
      byType.set(type, (byType.get(type) ?? 0) + time);
    }
    const busy = coveredTime(intervals);
    const top = [...byType].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([type, time]) => `${clean(type, 30)} ${total ? percent(time / total) : "–"}`);
    this.about.textContent = fill(this.words.range, { from: micro(from), to: micro(to), time: micro(to - from), number: rows.size, busy: micro(busy), idle: micro(Math.max(0, to - from - busy)), types: top.join(", ") });
    this.restrict((row) => rows.has(row));
  }

  #listen() {
    const { canvas } = this;
    let begin = null;
    let before = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      begin = event.offsetX;
      before = this.range;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (begin !== null && Math.abs(event.offsetX - begin) >= DRAG_PX) {
        this.range = [begin, event.offsetX].sort((a, b) => a - b).map((x) => this.#timeAt(x));
        this.#paint();
      }
      this.#showTip(begin === null ? this.#barAt(event.offsetX, event.offsetY) : -1, event.offsetX);
    });
    canvas.addEventListener("pointerup", (event) => {
      const from = begin;
      begin = null;
      if (from === null) return;
      if (Math.abs(event.offsetX - from) >= DRAG_PX) {
        this.choose([from, event.offsetX].sort((a, b) => a - b).map((x) => this.#timeAt(x)));
        return;
      }
      const bar = this.#barAt(event.offsetX, event.offsetY);
      if (bar >= 0) select(this.data.rows[this.firsts[bar]], "strip");
    });
    // the browser scrolls the page instead
    canvas.addEventListener("pointercancel", () => {
      if (begin === null) return;
      begin = null;
      this.range = before;
      this.#paint();
    });
    canvas.addEventListener("pointerleave", () => this.#showTip(-1, 0));
    canvas.addEventListener("dblclick", () => {
      this.view = [0, this.data.span];
      this.choose(null);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.#move(zoomed(this.view, event.deltaY > 0 ? 1.25 : 0.8, this.data.span, this.#timeAt(event.offsetX)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.choose([...this.view]);
      else if (event.key === "Escape" && this.range) this.choose(null);
      else return;
      event.stopPropagation();
    });
    bindTimeline((command) => this.#move(moved(command, this.view, this.data.span)), canvas);
    new ResizeObserver(() => this.#paint()).observe(canvas);
    onColours(() => this.#paint());
    // the row and the inspector are painted first
    let waiting = 0;
    onSelect(() => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.#paint(), PAINT_LATER_MS);
    });
    document.addEventListener("operators:range-cleared", () => this.#clear());
  }

  #move(view) {
    this.view = view;
    this.#paint();
  }

  #showTip(bar, x) {
    this.tip.hidden = bar < 0;
    if (bar < 0) return;
    const { data, operators, words } = this;
    const row = data.rows[this.firsts[bar]];
    const lines = data.count[bar] === 1 ? describeOperator(operators, row, words) : [fill(words.merged, { number: data.count[bar] })];
    this.tip.textContent = lines.concat(fill(words.bar, { pass: data.pass_number, start: micro(data.start[bar]), time: micro(data.end[bar] - data.start[bar], operators.unit) })).join(" · ");
    this.tip.style.left = `${Math.max(0, Math.min(x + 12, this.root.clientWidth - this.tip.offsetWidth - 4))}px`;
  }
}

/** Draw the strip once its data are there; without any data the strip stays away. */
export async function startStrip(root, restrict) {
  const fetchPass = (pass) => getJson(`${root.dataset.timeline}?pass=${pass}`, { login: root.dataset.login, cache: "no-cache" });
  let strip = null;
  let latest = "";

  async function draw(pass) {
    latest = pass;
    root.setAttribute("aria-busy", "true");
    try {
      const [operators, data] = await Promise.all([loadOperators(root), fetchPass(pass)]);
      if (pass !== latest) return;
      root.hidden = !data.lane.length && !strip;
      if (root.hidden) return;
      if (strip) strip.show(data);
      else strip = new TimelineStrip(root, data, operators, restrict);
      root.removeAttribute("aria-busy");
    } catch (error) {
      if (pass !== latest) return;
      root.removeAttribute("aria-busy");
      if (strip) strip.about.textContent = strip.words.failed;
      else root.hidden = true;
      console.warn("The timeline could not be drawn:", error.message);
    }
  }

  await draw(followPass(root.querySelector("[data-part=pass]"), draw));
}
