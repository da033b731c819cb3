// Base class of charts whose range can be zoomed and panned.

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

  /** Bring an item into view; `rangeOf` of the subclass returns its range. */
  show(item) {
    const [start, end] = /** @type {any} */ (this).rangeOf(item);
    this.centre = (start + end) / 2;
    const view = showing(this.view, [start, end], this.span);
    if (view[0] !== this.view[0] || view[1] !== this.view[1]) this.setView(view);
  }
}

/**
 * Clip a rectangle to the horizontal range of the chart's grid, in pixels. Returns a list as of `rectsOf`, which is
 * empty if the rectangle is outside the grid.
 */
export function clipped([left, top, right, bottom], [from, to]) {
  if (right < from || left > to) return [];
  const start = Math.max(left, from);
  return [[start, top, Math.min(right, to) - start, bottom - top]];
}
