// The part of a result page about memory over time: its chart, and the search for tensors, whose
// results replace the table and the chart's data. Without this script the form loads the whole page
// with the same results.

import { startCharts } from "../charts/show.js";
import { getFragment } from "../requests.js";
import { isPlainClick } from "../shortcuts.js";
import { FlowChart } from "./chart.js";

/** Query parameters of this part in the page's URL. */
const PARAMS = ["tag", "tensors", "flow_order", "flow_page"];

const section = document.querySelector("#memory-flow");
const { login } = section.dataset;

/** Replaces the table of tensors when the user searches, sorts or pages. */
class TensorSearch {
  /** charts: of this part, as from `startCharts` */
  constructor(charts) {
    this.charts = charts;
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
    if (!link || !isPlainClick(event)) return;
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
    this.charts.restart();
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

/** The parameters of the chart's data: the search of the page. */
function chartParameters() {
  const tag = new URLSearchParams(location.search).get("tag");
  return tag ? { tag } : {};
}

if (section.querySelector("#memory-flow-chart")) {
  new TensorSearch(startCharts(section, { "memory-flow": (context) => new FlowChart(context) }, { parameters: chartParameters }));
}
