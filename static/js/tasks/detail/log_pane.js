// The log of a task's attempts by step, as it grows. Text enters as text, whatever it contains.

import { splitSteps } from "./log_steps.js";

/** Characters kept in the page; `log.txt` has all that the device sent. */
const KEPT_CHARACTERS = 400_000;
/** This close to the end counts as reading along. */
const AT_END_PX = 24;

export class LogPane {
  /** pane: its dataset has the titles of attempts and steps */
  constructor(pane, { empty, cut }) {
    this.pane = pane;
    this.empty = empty;
    this.cut = cut;
    this.lastId = 0;
    this.characters = 0;
    /** attempt number -> {section, text: where its text goes, rest: node of a last line that may become a heading} */
    this.attempts = new Map();
  }

  /** Add a piece {id, attempt, text}; one that was seen already is dropped. */
  add({ id, attempt, text }) {
    if (id <= this.lastId) return;
    this.lastId = id;
    const atEnd = this.pane.scrollHeight - this.pane.scrollTop - this.pane.clientHeight < AT_END_PX;
    const place = this.#placeOf(attempt);
    const { parts, rest } = splitSteps(this.#takeRest(place) + text);
    for (const part of parts) {
      if (part.step) place.text = this.#addStep(place.section, part.step);
      this.#append(place.text, part.text);
    }
    if (rest) place.rest = this.#append(place.text, rest);
    this.#forget(place.text);
    this.empty.hidden = true;
    this.pane.hidden = false;
    if (atEnd) this.pane.scrollTop = this.pane.scrollHeight;
  }

  #append(element, text) {
    const node = document.createTextNode(text);
    element.append(node);
    this.characters += text.length;
    return node;
  }

  /** Remove the incomplete last line of an attempt, and return its text. */
  #takeRest(place) {
    const node = place.rest;
    if (!node?.isConnected) return "";
    place.rest = null;
    node.remove();
    this.characters -= node.data.length;
    return node.data;
  }

  /** Where an attempt's text goes; attempts stand apart, the second brings the titles out. */
  #placeOf(attempt) {
    const known = this.attempts.get(attempt);
    if (known) return known;
    const section = document.createElement("div");
    section.className = "log__attempt";
    section.dataset.attempt = attempt;
    const title = document.createElement("div");
    title.className = "log__title";
    title.textContent = `${this.pane.dataset.attempt} ${attempt}`;
    const text = newText();
    section.append(title, text);
    this.pane.append(section);
    const place = { section, text, rest: null };
    this.attempts.set(attempt, place);
    for (const shown of this.pane.querySelectorAll(".log__title")) shown.hidden = this.attempts.size < 2;
    return place;
  }

  /** Begin the part of a step, which can be folded; return where its text goes. */
  #addStep(section, step) {
    const part = document.createElement("details");
    part.className = "log__step";
    part.open = true;
    const title = document.createElement("summary");
    title.className = "log__step-title";
    title.textContent = stepTitle(step, this.pane.dataset);
    const text = newText();
    part.append(title, text);
    section.append(part);
    return text;
  }

  /** Drop the oldest pieces beyond what is kept, but not the last one of `current`. */
  #forget(current) {
    for (const text of this.pane.querySelectorAll(".log__text")) {
      const isPast = text !== current;
      while (this.characters > KEPT_CHARACTERS && text.firstChild && (isPast || text.firstChild !== text.lastChild)) {
        this.characters -= text.firstChild.data.length;
        text.firstChild.remove();
        this.cut.hidden = false;
      }
      if (isPast && !text.firstChild) text.closest(".log__step")?.remove();
    }
  }
}

function newText() {
  const text = document.createElement("pre");
  text.className = "log__text";
  return text;
}

/** The title of a step in the user's language; `titles` has one for each kind, with places for numbers. */
function stepTitle({ kind, again, number, count }, titles) {
  const title = titles[kind].replace("{number}", number ?? "1").replace("{count}", count ?? "1");
  return again ? titles.repeated.replace("{title}", title).replace("{number}", again) : title;
}
