// The command palette: a combobox in a dialog, as in the ARIA pattern "combobox with listbox popup".

import { clean } from "../charts/text.js";
import { fill, wordsOf } from "../format.js";
import { isForInputMethod } from "../shortcuts.js";
import { matching } from "./match.js";
import { findDevices, findOperators, findOptions, findTasks, pageEntries, themeEntries } from "./sources.js";

const PAUSE_MS = 150;
const LONGEST_TEXT = 120;

let palette = null;

export function togglePalette() {
  palette ??= new Palette();
  palette.toggle();
}

class Palette {
  constructor() {
    const content = document.querySelector("#palette").content.cloneNode(true);
    this.dialog = content.querySelector("dialog");
    this.words = wordsOf(content);
    this.themes = [...content.querySelectorAll("[data-theme-choice]")].map((each) => ({ group: this.words.settings, value: each.dataset.themeChoice, label: each.textContent, hint: "theme" }));
    this.urls = this.dialog.dataset;
    this.input = this.dialog.querySelector("[role=combobox]");
    this.list = this.dialog.querySelector("[role=listbox]");
    this.status = this.dialog.querySelector("[role=status]");
    this.shown = [];
    this.active = 0;
    /** entries of the page, those that were loaded once by their source, and the tasks of the last query */
    this.page = [];
    this.loaded = new Map();
    this.tasks = [];
    /** whether `tasks` are those of the query */
    this.isSettled = false;
    this.number = 0;
    document.body.append(this.dialog);
    this.#listen();
  }

  toggle() {
    if (this.dialog.open) {
      this.dialog.close();
      return;
    }
    // another dialog waits for an answer
    if (document.querySelector("dialog[open]")) return;
    const before = document.activeElement;
    this.dialog.showModal();
    this.dialog.addEventListener("close", () => {
      if (document.activeElement === document.body && before?.isConnected) before.focus();
    }, { once: true });
    this.input.value = "";
    this.page = [...pageEntries(this.words), ...themeEntries(this.themes, this.urls.settings, this.urls.login)];
    this.#search(0);
    this.#show();
    this.#load();
  }

  /** Load what does not depend on the query. A source without an answer is left out, and asked again next time. */
  async #load() {
    const { words, urls } = this;
    const sources = {
      devices: () => findDevices({ group: words.devices, urls, login: urls.login }),
      options: () => findOptions({ group: words.options, urls, login: urls.login }),
      operators: () => findOperators(words.operators),
    };
    await Promise.all(Object.entries(sources).map(async ([name, load]) => {
      if (this.loaded.get(name)?.length) return;
      this.loaded.set(name, await load().catch(() => []));
      this.#show();
    }));
  }

  #search(pause = PAUSE_MS) {
    clearTimeout(this.waiting);
    const number = ++this.number;
    this.isSettled = false;
    const query = this.input.value.trim();
    this.waiting = setTimeout(async () => {
      const { words, urls } = this;
      const tasks = await findTasks(query, { group: words.tasks, urls, login: urls.login }).catch(() => []);
      if (number !== this.number) return;
      this.tasks = tasks;
      this.isSettled = true;
      this.#show();
    }, pause);
  }

  /** List what matches; the active entry stays if it still does. */
  #show() {
    const query = this.input.value;
    const before = this.shown[this.active];
    const loaded = ["operators", "devices", "options"].map((name) => this.loaded.get(name) ?? []);
    const groups = new Map();
    for (const entry of this.page) groups.set(entry.group, [...(groups.get(entry.group) ?? []), entry]);
    // what the server found stays; the tasks of an earlier query may not match
    const found = [...groups.values()].map((entries) => matching(entries, query));
    found.push(this.isSettled ? this.tasks : matching(this.tasks, query), ...loaded.map((entries) => matching(entries, query)));
    this.shown = [];
    this.list.replaceChildren(...found.filter((rows) => rows.length).map((rows, number) => this.#groupOf(rows, number)));
    this.active = Math.max(0, this.shown.findIndex((entry) => entry.label === before?.label && entry.group === before?.group));
    this.#mark();
    if (this.isSettled) this.status.textContent = this.shown.length ? fill(this.words.found, { number: this.shown.length }) : this.words.none;
  }

  #groupOf(rows, number) {
    const made = document.createElement("div");
    made.setAttribute("role", "group");
    made.setAttribute("aria-labelledby", `palette-group-${number}`);
    const title = document.createElement("div");
    title.className = "palette__group";
    title.id = `palette-group-${number}`;
    title.textContent = rows[0].group;
    made.append(title, ...rows.map((entry) => this.#optionOf(entry)));
    return made;
  }

  #optionOf(entry) {
    const option = document.createElement("div");
    option.setAttribute("role", "option");
    option.className = "palette__option";
    option.id = `palette-option-${this.shown.length}`;
    option.dataset.place = String(this.shown.length);
    const label = document.createElement("bdi");
    label.className = "palette__label";
    label.textContent = clean(entry.label, LONGEST_TEXT);
    const hint = document.createElement("bdi");
    hint.className = "palette__hint";
    hint.textContent = clean(entry.hint ?? "", LONGEST_TEXT);
    option.append(label, hint);
    this.shown.push(entry);
    return option;
  }

  #mark() {
    for (const option of this.list.querySelectorAll("[role=option]")) option.setAttribute("aria-selected", String(Number(option.dataset.place) === this.active));
    const active = this.list.querySelector("[aria-selected=true]");
    if (active) this.input.setAttribute("aria-activedescendant", active.id);
    else this.input.removeAttribute("aria-activedescendant");
    active?.scrollIntoView({ block: "nearest" });
  }

  #run(place) {
    const entry = this.shown[place];
    if (!entry) return;
    this.dialog.close();
    entry.run();
  }

  #listen() {
    this.input.addEventListener("input", () => {
      this.active = 0;
      this.shown = [];
      this.#search();
      this.#show();
    });
    this.input.addEventListener("keydown", (event) => {
      if (isForInputMethod(event)) return;
      const last = this.shown.length - 1;
      const places = {
        ArrowDown: this.active === last ? 0 : this.active + 1,
        ArrowUp: this.active === 0 ? last : this.active - 1,
        PageDown: Math.min(last, this.active + 8),
        PageUp: Math.max(0, this.active - 8),
      };
      if (event.key in places) {
        event.preventDefault();
        this.active = Math.max(0, places[event.key]);
        this.#mark();
      } else if (event.key === "Enter") {
        event.preventDefault();
        this.#run(this.active);
      }
    });
    this.list.addEventListener("click", (event) => {
      const place = event.target.closest("[role=option]")?.dataset.place;
      if (place !== undefined) this.#run(Number(place));
    });
    this.list.addEventListener("pointermove", (event) => {
      const place = event.target.closest("[role=option]")?.dataset.place;
      if (place === undefined || Number(place) === this.active) return;
      this.active = Number(place);
      this.#mark();
    });
    // a click outside the dialog, on its backdrop
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }
}
