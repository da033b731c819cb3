// One file in the transfer panel: its state, progress and speed.

import { bytesize, fill } from "../format.js";

/** The time over which the speed is averaged. */
const WINDOW_MS = 6_000;

/** The speed of a transfer, from samples of the bytes that have been sent. */
export class TransferRate {
  constructor() {
    this.samples = [];
  }

  /** Record the total bytes sent by `now`; the total may decrease. */
  addSample(bytes, now = performance.now()) {
    this.samples.push({ bytes, now });
    while (this.samples.length > 2 && this.samples[0].now < now - WINDOW_MS) this.samples.shift();
  }

  /** Drop the samples from before a pause. */
  reset() {
    this.samples = [];
  }

  /** Bytes per second over the window, null while there are too few samples. */
  speed() {
    const first = this.samples[0];
    const last = this.samples.at(-1);
    if (!last || last.now - first.now < 500 || last.bytes <= first.bytes) return null;
    return ((last.bytes - first.bytes) / (last.now - first.now)) * 1_000;
  }
}

/** Format a remaining time, s: "8 s", "3 min", "1 h 20 min". */
export function formatRemaining(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.ceil(seconds))} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export class TransferRow {
  /** texts: the data attributes of the panel, with the messages in the user's language */
  constructor(file, texts) {
    this.file = file;
    this.texts = texts;
    this.rate = new TransferRate();
    this.safe = "";
    const template = document.getElementById("transfer-row");
    this.element = template.content.cloneNode(true).firstElementChild;
    this.element.querySelector(".transfer__name").textContent = file.name;
    this.element.querySelector("progress").setAttribute("aria-label", file.name);
  }

  show(text, fraction, state = "") {
    this.element.className = `transfer__file${state ? ` transfer__file--${state}` : ""}`;
    this.element.querySelector(".transfer__state").textContent = text;
    this.element.querySelector("progress").value = fraction;
  }

  hashing(fraction) {
    this.show(`${this.texts.hashing} ${percent(fraction)}`, fraction);
  }

  /** Show that `bytes` of the file have been sent. */
  sending(bytes) {
    const fraction = bytes / this.file.size;
    this.show(`${this.texts.uploading} ${percent(fraction)}`, fraction);
    this.rate.addSample(bytes);
    const speed = this.rate.speed();
    const amounts = [`${bytesize(bytes)} / ${bytesize(this.file.size)}`];
    if (speed !== null) {
      amounts.push(`${bytesize(speed)}/s`);
      amounts.push(fill(this.texts.left, { time: formatRemaining((this.file.size - bytes) / speed) }));
    }
    this.#detail(amounts.join(" · "));
  }

  /** Show a change that `PartsUpload` reported. */
  parts({ bytes, safe, count, state }) {
    this.safe = fill(this.texts.parts, { safe, count });
    if (state === "sending") {
      this.sending(bytes);
      return;
    }
    this.rate.reset();
    this.show(this.texts[state], bytes / this.file.size, state);
    this.#detail(this.safe);
  }

  retrying() {
    this.rate.reset();
    this.show(this.texts.retrying, 0);
  }

  /** Show a failure; progress bar and count stay for parts that are already in storage. */
  failed() {
    const fraction = this.safe ? this.element.querySelector("progress").value : 0;
    this.show(this.texts.failed, fraction, "failed");
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

function percent(fraction) {
  return `${Math.floor(fraction * 100)} %`;
}
