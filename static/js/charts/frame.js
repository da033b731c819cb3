// Shared behaviour of all charts: size, colours, tooltips, mouse, keyboard, and marks of the selected
// operator. A chart (`timeline.js`, `roofline.js` ...) draws its items and implements:
//
//   length            number of items, in the order of the arrow keys
//   isEmpty           optional: whether there is nothing to draw; by default if there are no items
//   option(colours)   the option object for ECharts
//   describe(item)    description of an item, as lines of text
//   rectsOf(item)     current rectangles of an item in pixels: [left, top, width, height]
//   rowOf(item)       row of the operator of an item, or null
//   find(row)         the items of an operator
//   fromEvent(event)  the item at an ECharts event, or fromPoint(x, y); -1 for none
//   joined(item)      optional: the items that are highlighted with an item, itself included
//   act(item)         optional: an additional action for clicks
//   runCommand(name)  optional: zooms or pans a timeline, as `moved` of `timeline_layout.js` does
//   show(item)        optional: scrolls or zooms an item into view

import { onSelect, select, selected } from "../profiles/result/selection.js";
import { bindTimeline } from "../shortcuts.js";
import { nextItem } from "./keys.js";
import { onColours, readColours } from "./palette.js";

const SOURCE = "charts";
/** The selected operator of the page of a result. */
const OF_RESULT = { onSelect, select, selected };
const TIP_GAP_PX = 14;
/** Height of the sticky bar of sections at the top of the window. */
const TOP_BAR_PX = 48;
const MIN_MARK_PX = 8;

export class Frame {
  /** selection: `{selected, select, onSelect}`, by default that of the page of a result */
  constructor(parts, chart, drawing, words, selection = OF_RESULT) {
    this.selection = selection;
    this.parts = parts;
    this.chart = chart;
    this.drawing = drawing;
    this.words = words;
    this.cursor = -1;
    this.hovered = -1;
    this.listen();
    this.paint();
    /** Functions that end the listening to what outlives the chart. */
    this.ends = [
      selection.onSelect((row, source) => this.onSelection(row, source)),
      onColours(() => this.paint()),
      this.watchSize(),
    ];
    if (drawing.runCommand) this.ends.push(bindTimeline((command) => this.drawing.runCommand(command), parts.stage));
    this.bringIntoView(selection.selected());
  }

  /** No longer follow the selection, the colours, the size and the keys. */
  end() {
    for (const end of this.ends) end();
  }

  /** Redraw everything, after a change of data or colours. */
  paint() {
    this.chart.setOption(this.drawing.option(readColours()), { notMerge: true });
    this.mark();
  }

  /** Apply `change` to the chart's data and redraw; the keyboard cursor stays at its operator. */
  redraw(change) {
    const row = this.cursor < 0 ? null : this.drawing.rowOf(this.cursor);
    change();
    const [item = -1] = row === null ? [] : this.drawing.find(row);
    this.cursor = item;
    this.hovered = -1;
    this.parts.tip.hidden = true;
    this.paint();
  }

  resize() {
    this.chart.resize();
    this.mark();
  }

  /** Follow the size of the canvas; returns a function that ends this. */
  watchSize() {
    let waiting = 0;
    const observer = new ResizeObserver(() => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.resize());
    });
    observer.observe(this.parts.canvas);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(waiting);
    };
  }

  listen() {
    const { stage } = this.parts;
    if (this.drawing.fromEvent) {
      this.chart.on("mousemove", (event) => this.hover(this.drawing.fromEvent(event), event.event));
      this.chart.on("mouseout", () => this.hover(-1));
      this.chart.on("click", (event) => this.choose(this.drawing.fromEvent(event)));
    } else {
      const zr = this.chart.getZr();
      zr.on("mousemove", (event) => this.hover(this.drawing.fromPoint(event.offsetX, event.offsetY), event));
      zr.on("click", (event) => this.choose(this.drawing.fromPoint(event.offsetX, event.offsetY)));
    }
    this.chart.getZr().on("globalout", () => this.hover(-1));
    // zoom and drill-down move the items, whose positions are known once the chart is drawn
    this.chart.on("finished", () => this.mark());
    stage.addEventListener("keydown", (event) => this.onKey(event));
    stage.addEventListener("blur", () => this.moveTo(-1));
  }

  onKey(event) {
    // with Shift, the arrows are shortcuts of timelines
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === "Enter" && this.cursor >= 0) {
      this.choose(this.cursor);
    } else if (event.key === "Escape" && (this.cursor >= 0 || this.selection.selected() !== null)) {
      this.moveTo(-1);
      this.selection.select(null, SOURCE);
      this.announce([this.words.cleared]);
    } else {
      const from = this.cursor >= 0 ? this.cursor : (this.selectedItems()[0] ?? -1);
      const next = nextItem(event.key, from, this.drawing.length);
      if (next === null) return;
      this.moveTo(next);
      this.announce(this.drawing.describe(next), next);
    }
    event.preventDefault();
  }

  selectedItems() {
    const row = this.selection.selected();
    return row === null ? [] : this.drawing.find(row);
  }

  moveTo(item) {
    this.cursor = item;
    if (item >= 0) this.drawing.show?.(item);
    this.markCursor();
    this.showTip(item);
  }

  choose(item) {
    if (item < 0) return;
    const row = this.drawing.rowOf(item);
    if (row !== null) {
      this.selection.select(row, SOURCE);
      this.announce([this.words.selected, ...this.drawing.describe(item)], item);
    }
    this.drawing.act?.(item);
  }

  hover(item, event) {
    this.parts.canvas.style.cursor = item >= 0 ? "pointer" : "";
    this.hovered = item;
    if (this.drawing.joined) this.showMarks(this.parts.cursor, this.joined(item < 0 ? this.cursor : item));
    this.showTip(item, event && { x: event.offsetX, y: event.offsetY });
  }

  /** Announce lines to screen readers, with the item's number if there is one. */
  announce(lines, item) {
    const position = item === undefined ? "" : ` (${item + 1} / ${this.drawing.length})`;
    this.parts.live.textContent = lines.join(", ") + position;
  }

  /** Show the tooltip of an item, beside the pointer (`pointer`: {x, y}) or the item; hide it for -1. */
  showTip(item, pointer) {
    const { tip, stage } = this.parts;
    tip.hidden = item < 0;
    if (item < 0) return;
    tip.replaceChildren(
      ...this.drawing.describe(item).map((text) => {
        const line = document.createElement("span");
        line.className = "chart__tip-line hostile";
        line.textContent = text;
        return line;
      }),
    );
    const [left = 0, top = 0, width = 0] = this.drawing.rectsOf(item)[0] ?? [];
    const x = pointer?.x ?? left + width / 2;
    const y = pointer?.y ?? top;
    const room = stage.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(x + TIP_GAP_PX, room))}px`;
    tip.style.top = `${this.tipTop(y)}px`;
  }

  /** The top of the tooltip: above `y` if it fits, otherwise below; in a low chart it may extend beyond the chart. */
  tipTop(y) {
    const { tip, stage } = this.parts;
    const above = y - tip.offsetHeight - TIP_GAP_PX;
    const below = y + TIP_GAP_PX;
    if (above >= 0) return above;
    const inWindow = stage.getBoundingClientRect().top + above >= TOP_BAR_PX;
    return below + tip.offsetHeight <= stage.clientHeight || !inWindow ? below : above;
  }

  onSelection(row, source) {
    if (source !== SOURCE) this.bringIntoView(row);
    this.markSelected();
  }

  bringIntoView(row) {
    const [item] = row === null ? [] : this.drawing.find(row);
    if (item !== undefined) this.drawing.show?.(item);
  }

  mark() {
    this.markSelected();
    this.markCursor();
  }

  markSelected() {
    this.showMarks(this.parts.marks, this.selectedItems());
  }

  markCursor() {
    this.showMarks(this.parts.cursor, this.joined(this.cursor));
  }

  /** An item and those that are highlighted with it. */
  joined(item) {
    if (item < 0) return [];
    return this.drawing.joined?.(item) ?? [item];
  }

  /** Put marks over items; they are elements above the canvas, so the chart is not redrawn. */
  showMarks(layer, items) {
    const rects = items.flatMap((item) => this.drawing.rectsOf(item));
    while (layer.childElementCount > rects.length) layer.lastElementChild.remove();
    while (layer.childElementCount < rects.length) layer.append(document.createElement("i"));
    rects.forEach(([left, top, width, height], number) => {
      const wide = Math.max(width, MIN_MARK_PX);
      const high = Math.max(height, MIN_MARK_PX);
      const { style } = layer.children[number];
      style.transform = `translate(${left - (wide - width) / 2}px, ${top - (high - height) / 2}px)`;
      style.width = `${wide}px`;
      style.height = `${high}px`;
    });
  }
}
