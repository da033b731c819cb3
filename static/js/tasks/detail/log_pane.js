// The log of a task's attempts, as it grows. Text enters as text, whatever it contains.

/** Characters kept in the page; `log.txt` has all that the device sent. */
const KEPT_CHARACTERS = 400_000;
/** This close to the end counts as reading along. */
const AT_END_PX = 24;

export class LogPane {
  constructor(pane, { empty, cut }) {
    this.pane = pane;
    this.empty = empty;
    this.cut = cut;
    this.lastId = 0;
    this.characters = 0;
    /** attempt number -> the element with its text */
    this.texts = new Map();
  }

  /** Add a piece {id, attempt, text}; one that was seen already is dropped. */
  add({ id, attempt, text }) {
    if (id <= this.lastId) return;
    this.lastId = id;
    const atEnd = this.pane.scrollHeight - this.pane.scrollTop - this.pane.clientHeight < AT_END_PX;
    this.#textOf(attempt).append(document.createTextNode(text));
    this.characters += text.length;
    this.#forget();
    this.empty.hidden = true;
    this.pane.hidden = false;
    if (atEnd) this.pane.scrollTop = this.pane.scrollHeight;
  }

  /** Where an attempt's text goes; attempts stand apart, the second brings the titles out. */
  #textOf(attempt) {
    const known = this.texts.get(attempt);
    if (known) return known;
    const section = document.createElement("div");
    section.className = "log__attempt";
    section.dataset.attempt = attempt;
    const title = document.createElement("div");
    title.className = "log__title";
    title.textContent = `${this.pane.dataset.attempt} ${attempt}`;
    const text = document.createElement("pre");
    text.className = "log__text";
    section.append(title, text);
    this.pane.append(section);
    this.texts.set(attempt, text);
    for (const shown of this.pane.querySelectorAll(".log__title")) shown.hidden = this.texts.size < 2;
    return text;
  }

  /** Drop the oldest pieces beyond what is kept. */
  #forget() {
    for (const text of this.texts.values()) {
      while (this.characters > KEPT_CHARACTERS && text.firstChild !== text.lastChild) {
        this.characters -= text.firstChild.data.length;
        text.firstChild.remove();
        this.cut.hidden = false;
      }
    }
  }
}
