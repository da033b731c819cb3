// What all pictures share: the chart and its size and colours, marks of the selected operator, the
// mouse and the keyboard. What is drawn is a picture's matter (`timeline.js`, `roofline.js` ...):
//
//   length            its items, in the order that the arrow keys follow
//   option(colours)   for ECharts
//   describe(item)    what it says of an item, lines of text
//   places(item)      where an item is now, rectangles in pixels: [left, top, width, height]
//   rowOf(item)       the operator that an item stands for, null for none
//   find(row)         the items that stand for an operator
//   fromEvent(event)  the item under an event of ECharts, or fromPoint(x, y); -1 for none
//   act(item)         what else a click does; show(item) brings an item into view (both optional)

import { onSelect, select, selected } from "../profiles/result/selection.js";
import { nextItem } from "./keys.js";
import { readColours } from "./palette.js";

const SOURCE = "pictures";
const TIP_GAP_PX = 14;
/** What the bar of sections hides at the top of the window. */
const TOP_BAR_PX = 48;
const LEAST_MARK_PX = 8;

export class Frame {
  constructor(parts, chart, picture, words) {
    this.parts = parts;
    this.chart = chart;
    this.picture = picture;
    this.words = words;
    this.cursor = -1;
    this.hovered = -1;
    this.listen();
    this.paint();
    onSelect((row, source) => this.onSelection(row, source));
    this.bringIntoView(selected());
  }

  /** Draw everything anew: after a change of data or colours. */
  paint() {
    this.chart.setOption(this.picture.option(readColours()), { notMerge: true });
    this.mark();
  }

  /** Let `change` replace what is drawn; the keyboard stays at its operator. */
  redraw(change) {
    const row = this.cursor < 0 ? null : this.picture.rowOf(this.cursor);
    change();
    const [item = -1] = row === null ? [] : this.picture.find(row);
    this.cursor = item;
    this.hovered = -1;
    this.parts.tip.hidden = true;
    this.paint();
  }

  resize() {
    this.chart.resize();
    this.mark();
  }

  listen() {
    const { stage } = this.parts;
    if (this.picture.fromEvent) {
      this.chart.on("mousemove", (event) => this.hover(this.picture.fromEvent(event), event.event));
      this.chart.on("mouseout", () => this.hover(-1));
      this.chart.on("click", (event) => this.choose(this.picture.fromEvent(event)));
    } else {
      const zr = this.chart.getZr();
      zr.on("mousemove", (event) => this.hover(this.picture.fromPoint(event.offsetX, event.offsetY), event));
      zr.on("click", (event) => this.choose(this.picture.fromPoint(event.offsetX, event.offsetY)));
    }
    this.chart.getZr().on("globalout", () => this.hover(-1));
    // a chart that moves (zoom, drill-down) moves its items; drawn first, then asked where they are
    this.chart.on("finished", () => this.mark());
    stage.addEventListener("keydown", (event) => this.onKey(event));
    stage.addEventListener("blur", () => this.moveTo(-1));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.picture.onKey?.(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && this.cursor >= 0) {
      this.choose(this.cursor);
    } else if (event.key === "Escape" && (this.cursor >= 0 || selected() !== null)) {
      this.moveTo(-1);
      select(null, SOURCE);
      this.say([this.words.cleared]);
    } else {
      const from = this.cursor >= 0 ? this.cursor : (this.selectedItems()[0] ?? -1);
      const next = nextItem(event.key, from, this.picture.length);
      if (next === null) return;
      this.moveTo(next);
      this.say(this.picture.describe(next), next);
    }
    event.preventDefault();
  }

  selectedItems() {
    return selected() === null ? [] : this.picture.find(selected());
  }

  moveTo(item) {
    this.cursor = item;
    if (item >= 0) this.picture.show?.(item);
    this.markCursor();
    this.tell(item);
  }

  choose(item) {
    if (item < 0) return;
    const row = this.picture.rowOf(item);
    if (row !== null) {
      select(row, SOURCE);
      this.say([this.words.selected, ...this.picture.describe(item)], item);
    }
    this.picture.act?.(item);
  }

  hover(item, event) {
    this.parts.canvas.style.cursor = item >= 0 ? "pointer" : "";
    this.hovered = item;
    this.tell(item, event && { x: event.offsetX, y: event.offsetY });
  }

  say(lines, item) {
    const place = item === undefined ? "" : ` (${item + 1} / ${this.picture.length})`;
    this.parts.live.textContent = lines.join(", ") + place;
  }

  /** Show what an item is, beside the mouse or the item. */
  tell(item, at) {
    const { tip, stage } = this.parts;
    tip.hidden = item < 0;
    if (item < 0) return;
    tip.replaceChildren(
      ...this.picture.describe(item).map((text) => {
        const line = document.createElement("span");
        line.className = "picture__tip-line hostile";
        line.textContent = text;
        return line;
      }),
    );
    const [left = 0, top = 0, width = 0] = this.picture.places(item)[0] ?? [];
    const x = at?.x ?? left + width / 2;
    const y = at?.y ?? top;
    const room = stage.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(x + TIP_GAP_PX, room))}px`;
    tip.style.top = `${this.tipTop(y)}px`;
  }

  /** Above `y`, below it where only that fits the picture; a low picture's tip stands out of it. */
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
    const [item] = row === null ? [] : this.picture.find(row);
    if (item !== undefined) this.picture.show?.(item);
  }

  mark() {
    this.markSelected();
    this.markCursor();
  }

  markSelected() {
    this.place(this.parts.marks, this.selectedItems());
  }

  markCursor() {
    this.place(this.parts.cursor, this.cursor < 0 ? [] : [this.cursor]);
  }

  /** Put frames over items; they lie above the canvas, so that nothing is drawn anew. */
  place(layer, items) {
    const places = items.flatMap((item) => this.picture.places(item));
    while (layer.childElementCount > places.length) layer.lastElementChild.remove();
    while (layer.childElementCount < places.length) layer.append(document.createElement("i"));
    places.forEach(([left, top, width, height], number) => {
      const wide = Math.max(width, LEAST_MARK_PX);
      const high = Math.max(height, LEAST_MARK_PX);
      const { style } = layer.children[number];
      style.transform = `translate(${left - (wide - width) / 2}px, ${top - (high - height) / 2}px)`;
      style.width = `${wide}px`;
      style.height = `${high}px`;
    });
  }
}
