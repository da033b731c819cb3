// The part of a result page about memory over time: its chart, and the search for tensors, whose
// results replace the table and the chart's data. Without this script the form loads the whole page
// with the same results.

import { loadECharts, makeChart } from "../charts/echarts.js";
import { Frame } from "../charts/frame.js";
import { onWhole } from "../profiles/result/printing.js";
import { getFragment, getJson } from "../requests.js";
import { FlowChart, HEIGHT_PX } from "./chart.js";

const AHEAD = "300px";
/** Query parameters of this part in the page's URL. */
const PARAMS = ["tag", "tensors", "flow_order", "flow_page"];

const section = document.querySelector("#memory-flow");
const figure = section.querySelector("#memory-flow-chart");
const { login } = section.dataset;

class Chart {
  constructor() {
    this.parts = {};
    for (const element of figure.querySelectorAll("[data-part]")) this.parts[element.dataset.part] ??= element;
    this.words = Object.fromEntries(
      [...figure.querySelector("template").content.querySelectorAll("[data-word]")].map((element) => [
        element.dataset.word,
        element.textContent,
      ]),
    );
    this.isStarted = false;
    this.chart = null;
    this.requestNumber = 0;
    this.parts.retry.addEventListener("click", () => this.draw());
  }

  start() {
    if (this.isStarted) return this.drawing;
    this.isStarted = true;
    this.drawing = this.draw();
    return this.drawing;
  }

  /** Fetch and draw the data that the page's URL selects. */
  async draw() {
    this.requestNumber += 1;
    const { requestNumber } = this;
    if (!this.frame) this.setState("loading");
    try {
      const tag = new URLSearchParams(location.search).get("tag") ?? "";
      const url = tag ? `${figure.dataset.url}?${new URLSearchParams({ tag })}` : figure.dataset.url;
      const [echarts, data] = await Promise.all([
        loadECharts(section.dataset.echarts),
        getJson(url, { login, cache: "no-cache" }),
      ]);
      if (requestNumber === this.requestNumber) this.show(echarts, data);
    } catch (error) {
      if (requestNumber !== this.requestNumber) return;
      this.setState("error");
      console.warn("The chart of memory could not be drawn:", error.message);
    }
  }

  show(echarts, data) {
    const { parts, words } = this;
    parts.sentence.textContent = data.sentence;
    parts.sentence.hidden = !data.sentence;
    parts.notes.replaceChildren(
      ...data.notes.map((text) => {
        const note = document.createElement("li");
        note.textContent = text;
        return note;
      }),
    );
    this.setState("ready");
    parts.canvas.style.height = `${HEIGHT_PX}px`;
    this.chart ??= makeChart(echarts, parts.canvas);
    this.chart.resize();
    const drawing = new FlowChart({ data, words, chart: this.chart, echarts, parts });
    if (this.frame) {
      this.frame.drawing = drawing;
      this.frame.moveTo(-1);
      this.frame.paint();
      return;
    }
    this.frame = new Frame(parts, this.chart, drawing, words);
  }

  setState(state) {
    figure.dataset.state = state;
    this.parts.stage.setAttribute("aria-busy", String(state === "loading"));
  }
}

/** Replaces the table of tensors when the user searches, sorts or pages. */
class TensorSearch {
  constructor(chart) {
    this.chart = chart;
    this.table = section.querySelector("#memory-flow-tensors");
    this.status = section.querySelector("#memory-flow-status");
    this.requestNumber = 0;
    section.addEventListener("submit", (event) => this.onSubmit(event));
    section.addEventListener("change", (event) => {
      if (event.target.matches("select")) event.target.form.requestSubmit();
    });
    section.addEventListener("click", (event) => this.onClick(event));
    this.query = this.readQuery();
    // other parts of the page also use the history, such as the selection of operators
    addEventListener("popstate", () => {
      if (this.readQuery() !== this.query) this.show();
    });
  }

  /** The query string of this part in the page's URL. */
  readQuery() {
    const pageParams = new URLSearchParams(location.search);
    const params = PARAMS.filter((name) => pageParams.get(name)).map((name) => [name, pageParams.get(name)]);
    return `?${new URLSearchParams(params)}`;
  }

  onSubmit(event) {
    event.preventDefault();
    const params = [...new FormData(event.target)].map(([name, value]) => [name, String(value)]).filter(([, value]) => value);
    this.search(`?${new URLSearchParams(params)}`);
  }

  onClick(event) {
    const link = event.target.closest("a[data-flow]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.search(new URL(link.href).search);
  }

  /** Put the parameters of `query` into the page's URL, keep all others, and show the results. */
  search(query) {
    const params = new URLSearchParams(query);
    const url = new URL(location.href);
    for (const name of PARAMS) {
      url.searchParams.delete(name);
      if (params.get(name)) url.searchParams.set(name, params.get(name));
    }
    history.pushState(history.state, "", url);
    return this.show();
  }

  async show() {
    this.requestNumber += 1;
    this.query = this.readQuery();
    const { requestNumber } = this;
    const focused = this.table.contains(document.activeElement) ? document.activeElement.id : "";
    if (this.chart.isStarted) this.chart.draw();
    try {
      const fragment = await getFragment(`${section.dataset.tensors}${this.query}`, { login });
      if (requestNumber !== this.requestNumber) return;
      this.table.replaceChildren(fragment);
      const replacement = focused && document.getElementById(focused);
      if (replacement) replacement.focus();
      else this.table.scrollIntoView({ block: "nearest" });
      this.status.textContent = this.table.querySelector("#memory-flow-found").textContent;
    } catch {
      if (requestNumber !== this.requestNumber) return;
      this.status.textContent = this.status.dataset.failed;
    }
  }
}

if (figure) {
  const chart = new Chart();
  new TensorSearch(chart);
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      chart.start();
    },
    { rootMargin: AHEAD },
  );
  observer.observe(figure);
  onWhole(() => chart.start());
}
