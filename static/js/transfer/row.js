// One file in the panel of files on their way: what happens to it, how far it is, how fast it goes.

import { bytesize, fill } from "../format.js";

/** ms; the speed is that of the last so many */
const WINDOW_MS = 6_000;

/** How fast a transfer goes, from what has arrived at which time. */
export class Pace {
  constructor() {
    this.samples = [];
  }

  /** Note how many bytes have arrived by now; they may have become fewer. */
  note(bytes, now = performance.now()) {
    this.samples.push({ bytes, now });
    while (this.samples.length > 2 && this.samples[0].now < now - WINDOW_MS) this.samples.shift();
  }

  /** Forget what was before a pause. */
  reset() {
    this.samples = [];
  }

  /** Bytes a second over the last seconds, null while nobody knows. */
  speed() {
    const first = this.samples[0];
    const last = this.samples.at(-1);
    if (!last || last.now - first.now < 500 || last.bytes <= first.bytes) return null;
    return ((last.bytes - first.bytes) / (last.now - first.now)) * 1_000;
  }
}

/** A time that is left, s: "8 s", "3 min", "1 h 20 min". */
export function timeLeft(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.ceil(seconds))} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export class TransferRow {
  /** texts: the panel's words */
  constructor(file, texts) {
    this.file = file;
    this.texts = texts;
    this.pace = new Pace();
    this.safe = "";
    const template = document.getElementById("transfer-row");
    this.element = template.content.cloneNode(true).firstElementChild;
    this.element.querySelector(".transfer__name").textContent = file.name;
    this.element.querySelector("progress").setAttribute("aria-label", file.name);
  }

  show(text, part, state = "") {
    this.element.className = `transfer__file${state ? ` transfer__file--${state}` : ""}`;
    this.element.querySelector(".transfer__state").textContent = text;
    this.element.querySelector("progress").value = part;
  }

  hashing(part) {
    this.show(`${this.texts.hashing} ${percent(part)}`, part);
  }

  /** So many bytes have arrived. */
  sending(bytes) {
    const part = bytes / this.file.size;
    this.show(`${this.texts.uploading} ${percent(part)}`, part);
    this.pace.note(bytes);
    const speed = this.pace.speed();
    const amounts = [`${bytesize(bytes)} / ${bytesize(this.file.size)}`];
    if (speed !== null) {
      amounts.push(`${bytesize(speed)}/s`);
      amounts.push(fill(this.texts.left, { time: timeLeft((this.file.size - bytes) / speed) }));
    }
    this.#detail(amounts.join(" · "));
  }

  /** What `PartsUpload` tells. */
  parts({ bytes, safe, count, state }) {
    this.safe = fill(this.texts.parts, { safe, count });
    if (state === "sending") {
      this.sending(bytes);
      return;
    }
    this.pace.reset();
    this.show(this.texts[state], bytes / this.file.size, state);
    this.#detail(this.safe);
  }

  retrying() {
    this.pace.reset();
    this.show(this.texts.retrying, 0);
  }

  /** Parts that have arrived are not lost: the bar and the count of them stay. */
  failed() {
    const part = this.safe ? this.element.querySelector("progress").value : 0;
    this.show(this.texts.failed, part, "failed");
    this.#detail(this.safe);
  }

  stored() {
    this.show(this.texts.stored, 1, "stored");
    this.#detail(bytesize(this.file.size));
  }

  #detail(text) {
    this.element.querySelector(".transfer__detail").textContent = text;
  }
}

function percent(part) {
  return `${Math.floor(part * 100)} %`;
}
