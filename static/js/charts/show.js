// Start the charts of a section of the page: each is fetched and drawn when it comes into view.

import { wordsOf } from "../format.js";
import { followPass } from "../profiles/result/chosen_pass.js";
import { onWhole } from "../profiles/result/printing.js";
import { getJson } from "../requests.js";
import { loadECharts, makeChart } from "./echarts.js";
import { Frame } from "./frame.js";
import { fillWhenOpened } from "./table.js";

/** Charts are started this far before they come into view. */
const AHEAD = "300px";

function partsOf(figure) {
  const parts = {};
  for (const element of figure.querySelectorAll("[data-part]")) parts[element.dataset.part] ??= element;
  return parts;
}

/** Fetches and draws the chart of one <figure>, and shows its loading and error states. */
class ChartLoader {
  /** shared: {section, words, kinds, fetchOperators, selection, parameters}, common to the charts of a section */
  constructor(figure, shared) {
    this.figure = figure;
    this.shared = shared;
    this.parts = partsOf(figure);
    this.frame = null;
    this.chart = null;
    this.parameters = {};
    this.starts = 0;
    this.parts.retry.addEventListener("click", () => this.start());
    this.parts.device?.addEventListener("change", (event) => this.start({ device: event.target.value }));
    if (this.parts.pass) this.parameters.pass = followPass(this.parts.pass, (pass) => this.start({ pass }));
  }

  /** Fetch and draw; `parameters` are those of the address of the data that change. */
  async start(parameters = {}) {
    // controls of a drawn chart keep their place and the focus
    if (this.figure.dataset.state === "ready") this.parts.stage.setAttribute("aria-busy", "true");
    else this.setState("loading");
    Object.assign(this.parameters, parameters);
    this.starts += 1;
    const start = this.starts;
    try {
      const [echarts, operators, data] = await Promise.all([
        loadECharts(this.shared.section.dataset.echarts),
        this.shared.fetchOperators(),
        this.fetch(),
      ]);
      if (start === this.starts) this.draw(echarts, operators, data);
    } catch (error) {
      if (start !== this.starts) return;
      this.setState("error");
      console.warn("A chart could not be drawn:", error.message);
    }
  }

  fetch(more = {}) {
    const url = new URL(this.figure.dataset.url, location.href);
    const parameters = { ...this.shared.parameters(), ...this.parameters, ...more };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return getJson(url.pathname + url.search, { login: this.shared.section.dataset.login, cache: "no-cache" });
  }

  draw(echarts, operators, data) {
    this.parts.sentence.textContent = data.sentence;
    this.parts.sentence.hidden = !data.sentence;
    this.parts.notes.replaceChildren(
      ...data.notes.map((text) => {
        const note = document.createElement("li");
        note.textContent = text;
        return note;
      }),
    );
    // shown before drawing, because hidden canvases have no size
    this.setState("ready");
    this.chart ??= makeChart(echarts, this.parts.canvas);
    const { words, kinds } = this.shared;
    const fetchMore = (parameters) => this.fetch(parameters);
    const context = { data, operators, words, chart: this.chart, echarts, parts: this.parts, fetchMore };
    const drawing = kinds[this.figure.dataset.chart](context);
    const isEmpty = drawing.isEmpty ?? !drawing.length;
    if (isEmpty) this.setState("empty");
    if (this.parts.table) fillWhenOpened(this.parts.table, { rows: () => drawing.tableRows(), count: drawing.tableCount });
    if (isEmpty) return;
    if (drawing.height) {
      this.parts.canvas.style.height = `${drawing.height}px`;
      this.chart.resize();
    }
    if (this.frame) {
      this.frame.drawing = drawing;
      this.frame.moveTo(-1);
      this.frame.paint();
    } else {
      this.frame = new Frame(this.parts, this.chart, drawing, words, this.shared.selection);
    }
    drawing.redraw = (change) => this.frame.redraw(change);
  }

  /** End the chart, whose figure leaves the page; what is being fetched is not drawn. */
  end() {
    this.starts += 1;
    this.frame?.end();
    this.chart?.dispose();
  }

  setState(state) {
    this.figure.dataset.state = state;
    this.parts.stage.setAttribute("aria-busy", String(state === "loading"));
  }
}

/**
 * Start the charts of `section`.
 *
 * kinds: the function that makes each chart, by `data-chart`
 * fetchOperators(): promise of the operators that the charts share (`operators.js`), or of null
 * parameters(): parameters of the address of the data, read before each fetch
 * selection: as for `Frame`
 *
 * Returns {restart(), end()}: `restart` fetches and draws those again that were started; `end` ends them, before the
 * section leaves the page.
 */
export function startCharts(section, kinds, { fetchOperators = async () => null, parameters = () => ({}), selection = undefined } = {}) {
  const words = wordsOf(section.querySelector("template").content);
  const shared = { section, kinds, fetchOperators, parameters, selection, words };
  const figures = [...section.querySelectorAll("[data-chart]")];
  /** `{loader, drawn}` by figure: its loader, and the promise of its first drawing. */
  const started = new Map();

  function start(figure) {
    observer.unobserve(figure);
    if (!started.has(figure)) {
      const loader = new ChartLoader(figure, shared);
      started.set(figure, { loader, drawn: loader.start() });
    }
    return started.get(figure).drawn;
  }

  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) start(entry.target);
    },
    { rootMargin: AHEAD },
  );
  for (const figure of figures) observer.observe(figure);
  const endWhole = onWhole(() => Promise.all(figures.map(start)));
  return {
    restart() {
      for (const { loader } of started.values()) loader.start();
    },
    end() {
      observer.disconnect();
      endWhole();
      for (const { loader } of started.values()) loader.end();
    },
  };
}
