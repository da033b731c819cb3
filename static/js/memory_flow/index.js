// The part of a result page about memory over time: its picture, and the search for tensors, whose
// answers take the place of the table and of what is drawn. Without this script the form asks for a
// whole page with the same answers.

import { loadECharts, makeChart } from "../charts/echarts.js";
import { Frame } from "../charts/frame.js";
import { onColours } from "../charts/palette.js";
import { onWhole } from "../profiles/result/printing.js";
import { getFragment, getJson } from "../requests.js";
import { FlowPicture, HEIGHT_PX } from "./picture.js";

const AHEAD = "300px";
/** Of the address of the page. */
const ASKED = ["tag", "tensors", "flow_order", "flow_page"];

const section = document.querySelector("#memory-flow");
const figure = section.querySelector("#memory-flow-picture");
const { login } = section.dataset;

class Picture {
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
    this.asked = 0;
    this.parts.retry.addEventListener("click", () => this.draw());
  }

  start() {
    if (this.isStarted) return this.drawing;
    this.isStarted = true;
    this.drawing = this.draw();
    return this.drawing;
  }

  /** Draw what the page's address asks for. */
  async draw() {
    this.asked += 1;
    const { asked } = this;
    if (!this.frame) this.say("loading");
    try {
      const tag = new URLSearchParams(location.search).get("tag") ?? "";
      const url = tag ? `${figure.dataset.url}?${new URLSearchParams({ tag })}` : figure.dataset.url;
      const [echarts, data] = await Promise.all([
        loadECharts(section.dataset.echarts),
        getJson(url, { login, cache: "no-cache" }),
      ]);
      if (asked === this.asked) this.show(echarts, data);
    } catch (error) {
      this.say("error");
      console.warn("The picture of memory could not be drawn:", error.message);
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
    this.say("ready");
    parts.canvas.style.height = `${HEIGHT_PX}px`;
    this.chart ??= makeChart(echarts, parts.canvas);
    this.chart.resize();
    const picture = new FlowPicture({ data, words, chart: this.chart, echarts, parts });
    if (this.frame) {
      this.frame.picture = picture;
      this.frame.moveTo(-1);
      this.frame.paint();
      return;
    }
    this.frame = new Frame(parts, this.chart, picture, words);
    onColours(() => this.frame.paint());
    new ResizeObserver(() => requestAnimationFrame(() => this.frame.resize())).observe(parts.canvas);
  }

  say(state) {
    figure.dataset.state = state;
    this.parts.stage.setAttribute("aria-busy", String(state === "loading"));
  }
}

/** The table that the reader asks for, in place of the one that is there. */
class Search {
  constructor(picture) {
    this.picture = picture;
    this.table = section.querySelector("#memory-flow-tensors");
    this.said = section.querySelector("#memory-flow-said");
    this.asked = 0;
    section.addEventListener("submit", (event) => this.onSubmit(event));
    section.addEventListener("change", (event) => {
      if (event.target.matches("select")) event.target.form.requestSubmit();
    });
    section.addEventListener("click", (event) => this.onClick(event));
    this.shown = this.address();
    // the selection of operators goes back and forth, too
    addEventListener("popstate", () => {
      if (this.address() !== this.shown) this.show();
    });
  }

  /** What the page's address asks of this part. */
  address() {
    const given = new URLSearchParams(location.search);
    const asked = ASKED.filter((name) => given.get(name)).map((name) => [name, given.get(name)]);
    return `?${new URLSearchParams(asked)}`;
  }

  onSubmit(event) {
    event.preventDefault();
    const given = [...new FormData(event.target)].map(([name, value]) => [name, String(value)]).filter(([, value]) => value);
    this.ask(`?${new URLSearchParams(given)}`);
  }

  onClick(event) {
    const link = event.target.closest("a[data-flow]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.ask(new URL(link.href).search);
  }

  /** What else stands in the address stays there: the operator that is selected, the table's filter. */
  ask(search) {
    const given = new URLSearchParams(search);
    const url = new URL(location.href);
    for (const name of ASKED) {
      url.searchParams.delete(name);
      if (given.get(name)) url.searchParams.set(name, given.get(name));
    }
    history.pushState(history.state, "", url);
    return this.show();
  }

  async show() {
    this.asked += 1;
    this.shown = this.address();
    const { asked } = this;
    const focused = this.table.contains(document.activeElement) ? document.activeElement.id : "";
    if (this.picture.isStarted) this.picture.draw();
    try {
      const fragment = await getFragment(`${section.dataset.tensors}${this.shown}`, { login });
      if (asked !== this.asked) return;
      this.table.replaceChildren(fragment);
      const place = focused && document.getElementById(focused);
      if (place) place.focus();
      else this.table.scrollIntoView({ block: "nearest" });
      this.said.textContent = this.table.querySelector("#memory-flow-found").textContent;
    } catch {
      this.said.textContent = this.said.dataset.failed;
    }
  }
}

if (figure) {
  const picture = new Picture();
  new Search(picture);
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      picture.start();
    },
    { rootMargin: AHEAD },
  );
  observer.observe(figure);
  onWhole(() => picture.start());
}
