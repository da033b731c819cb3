// What charts with a range that zooms and pans have in common.

import { visibleRange } from "./palette.js";
import { moved, showing, within } from "./timeline_layout.js";

export class ZoomedChart {
  /** span: the whole range is 0 to `span`; tools: the element with the buttons of commands, if there is one */
  constructor(chart, span, tools) {
    this.chart = chart;
    this.span = span;
    this.view = [0, span];
    /** The middle of the item that was shown last; zooming centres on it. */
    this.centre = null;
    chart.off("datazoom");
    chart.on("datazoom", () => this.onZoom());
    for (const button of tools?.querySelectorAll("button") ?? []) {
      button.onclick = () => this.runCommand(button.dataset.command);
    }
  }

  /** Zoom or pan. command: as of `moved`. */
  runCommand(command) {
    this.setView(moved(command, this.view, this.span, this.centre));
  }

  /** @param {number[]} view */
  setView([startValue, endValue]) {
    this.view = [startValue, endValue];
    this.chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue, endValue });
  }

  onZoom() {
    this.view = within(visibleRange(this.chart), this.span);
  }

  /** Bring an item, of which the subclass tells the range (`rangeOf`), into view. */
  show(item) {
    const [start, end] = /** @type {any} */ (this).rangeOf(item);
    this.centre = (start + end) / 2;
    const view = showing(this.view, [start, end], this.span);
    if (view[0] !== this.view[0] || view[1] !== this.view[1]) this.setView(view);
  }
}

/** A rectangle in pixels as of `rectsOf`, without what is beside the grid of the chart: none if nothing is left. */
export function clipped([left, top, right, bottom], [from, to]) {
  if (right < from || left > to) return [];
  const start = Math.max(left, from);
  return [[start, top, Math.min(right, to) - start, bottom - top]];
}
