// The pictures of a result page: each is fetched and drawn when it comes into view.

import { getJson } from "../requests.js";
import { loadECharts } from "./echarts.js";
import { Frame } from "./frame.js";
import { onWhole } from "../result/printing.js";
import { withTypes } from "./operators.js";
import { onColours } from "./palette.js";
import { fillWhenOpened } from "./table.js";
import { cumulativePicture } from "./cumulative.js";
import { memoryPicture } from "./memory.js";
import { rooflinePicture } from "./roofline.js";
import { scopesPicture } from "./scopes.js";
import { timelinePicture } from "./timeline.js";
import { typesPicture } from "./types.js";

const KINDS = {
  timeline: timelinePicture,
  types: typesPicture,
  scopes: scopesPicture,
  roofline: rooflinePicture,
  memory: memoryPicture,
  cumulative: cumulativePicture,
};
/** Pictures are made a little before they are seen. */
const AHEAD = "300px";

const section = document.querySelector("#pictures");
const words = Object.fromEntries(
  [...section.querySelector("template").content.querySelectorAll("[data-word]")].map((element) => [
    element.dataset.word,
    element.textContent,
  ]),
);
const login = section.dataset.login;
let operators = null;

function fetchKept(url) {
  return getJson(url, { login, cache: "no-cache" });
}

/** Names and times of all operators, fetched once for all pictures. */
function fetchOperators() {
  operators ??= fetchKept(section.dataset.operators).then(withTypes);
  operators.catch(() => {
    operators = null;
  });
  return operators;
}

function partsOf(figure) {
  const parts = {};
  for (const element of figure.querySelectorAll("[data-part]")) parts[element.dataset.part] ??= element;
  return parts;
}

class Show {
  constructor(figure) {
    this.figure = figure;
    this.parts = partsOf(figure);
    this.frame = null;
    this.parts.retry.addEventListener("click", () => this.start());
    this.parts.device?.addEventListener("change", (event) => this.start({ device: event.target.value }));
  }

  async start(parameters = {}) {
    this.say("loading");
    try {
      const [echarts, known, data] = await Promise.all([
        loadECharts(section.dataset.echarts),
        fetchOperators(),
        this.fetch(parameters),
      ]);
      this.draw(echarts, known, data);
    } catch (error) {
      this.say("error");
      console.warn("A picture could not be drawn:", error.message);
    }
  }

  fetch(parameters) {
    const url = new URL(this.figure.dataset.url, location.href);
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return fetchKept(url.pathname + url.search);
  }

  draw(echarts, known, data) {
    this.parts.sentence.textContent = data.sentence;
    this.parts.sentence.hidden = !data.sentence;
    this.parts.notes.replaceChildren(
      ...data.notes.map((text) => {
        const note = document.createElement("li");
        note.textContent = text;
        return note;
      }),
    );
    // hidden canvases have no size
    this.say("ready");
    this.chart ??= echarts.init(this.parts.canvas, null, { renderer: "canvas" });
    const fetchMore = (parameters) => this.fetch(parameters);
    const context = { data, operators: known, words, chart: this.chart, echarts, parts: this.parts, fetchMore };
    const picture = KINDS[this.figure.dataset.picture](context);
    this.say(picture.length ? "ready" : "empty");
    fillWhenOpened(this.parts.table, { rows: () => picture.tableRows(), count: picture.tableCount });
    if (!picture.length) return;
    if (picture.height) {
      this.parts.canvas.style.height = `${picture.height}px`;
      this.chart.resize();
    }
    if (this.frame) {
      this.frame.picture = picture;
      this.frame.moveTo(-1);
      this.frame.paint();
    } else {
      this.frame = new Frame(this.parts, this.chart, picture, words);
      onColours(() => this.frame.paint());
      this.watchSize();
    }
    picture.redraw = (change) => this.frame.redraw(change);
  }

  watchSize() {
    let waiting = 0;
    new ResizeObserver(() => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.frame.resize());
    }).observe(this.parts.canvas);
  }

  say(state) {
    this.figure.dataset.state = state;
    this.parts.stage.setAttribute("aria-busy", String(state === "loading"));
  }
}

const figures = [...section.querySelectorAll("[data-picture]")];
const started = new Map();

function start(figure) {
  observer.unobserve(figure);
  if (!started.has(figure)) started.set(figure, new Show(figure).start());
  return started.get(figure);
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) start(entry.target);
  },
  { rootMargin: AHEAD },
);
for (const figure of figures) observer.observe(figure);
onWhole(() => Promise.all(figures.map(start)));
