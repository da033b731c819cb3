// The panel that shows files on their way: one row each, what went wrong, retry and abandon.

import { bytesize } from "./format.js";
import { NoAnswer, Refusal, postJson } from "./requests.js";
import { UploadError, hashFile, sendFile } from "./upload.js";

export class Transfer {
  /** files: File objects, in the order of the task's own files */
  constructor(files, login) {
    this.panel = document.getElementById("transfer");
    this.texts = this.panel.dataset;
    this.login = login;
    this.files = files;
    this.stored = new Set();
    this.rows = files.map((file) => this.#row(file));
    document.getElementById("transfer-list").replaceChildren(...this.rows);
    this.panel.hidden = false;
    this.warn = (event) => event.preventDefault();
    window.addEventListener("beforeunload", this.warn);
  }

  /** From now on the page may be left without a question. */
  release() {
    window.removeEventListener("beforeunload", this.warn);
  }

  /** Return the checksums of all files. */
  async hashAll() {
    const sums = [];
    for (const [i, file] of this.files.entries()) {
      const report = (part) => this.#show(i, `${this.texts.hashing} ${percent(part)}`, part);
      report(0);
      try {
        sums.push(await hashFile(file, this.texts.hasher, report));
      } catch (error) {
        this.#show(i, this.texts.failed, 0, "failed");
        throw error;
      }
      this.#show(i, this.texts.ready, 0);
    }
    return sums;
  }

  /**
   * Send what is not stored yet, then submit the task; goes to its page, or throws.
   *
   * targets: presigned PUTs in the order of the files, or null to fetch them
   * urls: {uploads, submit}
   */
  async sendAll(targets, urls) {
    this.problem(null);
    const fresh = async (i) => (await this.#post(urls.uploads)).uploads[i];
    for (const [i, file] of this.files.entries()) {
      if (this.stored.has(i)) continue;
      await this.#send(i, file, targets?.[i] ?? null, () => fresh(i));
    }
    let answer;
    try {
      answer = await this.#post(urls.submit);
    } catch (error) {
      // storage does not have what it said it had: send everything once more
      if (error.code === "upload_missing" || error.code === "upload_damaged") this.stored.clear();
      throw error;
    }
    this.release();
    window.location.assign(answer.url);
  }

  /** Upload and confirm until it works; false if the reader gave up, and `urls.cancel` was asked. */
  async run(targets, urls) {
    let known = targets;
    for (;;) {
      try {
        await this.sendAll(known, urls);
        return true;
      } catch (error) {
        if (!(await this.decide(error, urls.cancel))) return false;
        known = null;
      }
    }
  }

  /** Offer retry and abandon; resolves to true for retry, after abandoning to false. */
  decide(error, cancelUrl) {
    this.problem(this.cause(error));
    // a file that cannot be an input will not get better
    document.getElementById("transfer-retry").hidden = Boolean(error.code?.startsWith("input_"));
    const choice = (id) =>
      new Promise((resolve) => {
        document.getElementById(id).addEventListener("click", resolve, { once: true });
      });
    const abandon = choice("transfer-abandon").then(async () => {
      try {
        if (cancelUrl) await this.#post(cancelUrl);
      } catch {
        // the task ends by itself when its time for uploading is over
      }
      this.release();
      return false;
    });
    return Promise.race([choice("transfer-retry").then(() => true), abandon]);
  }

  /** The sentence for an error. */
  cause(error) {
    if (error instanceof UploadError) {
      return this.texts[error.kind] + (error.status ? ` (HTTP ${error.status})` : "");
    }
    if (error instanceof Refusal) return error.message;
    if (error instanceof NoAnswer) return error.status ? `${this.texts.unexpected} (HTTP ${error.status})` : this.texts.server;
    throw error;
  }

  /** Show a problem, or none. */
  problem(text) {
    document.getElementById("transfer-problem").hidden = text === null;
    document.getElementById("transfer-cause").textContent = text ?? "";
  }

  hide() {
    this.release();
    this.panel.hidden = true;
  }

  #post(url) {
    return postJson(url, {}, { login: this.login });
  }

  async #send(i, file, target, freshTarget) {
    const onProgress = (part) => {
      const done = `${bytesize(file.size * part)} / ${bytesize(file.size)}`;
      this.#show(i, `${this.texts.uploading} ${percent(part)} · ${done}`, part);
    };
    onProgress(0);
    try {
      await sendFile(file, target, {
        freshTarget,
        onProgress,
        onRetry: () => this.#show(i, this.texts.retrying, 0),
      });
    } catch (error) {
      this.#show(i, this.texts.failed, 0, "failed");
      throw error;
    }
    this.stored.add(i);
    this.#show(i, this.texts.stored, 1, "stored");
  }

  #row(file) {
    const row = document.getElementById("transfer-row").content.cloneNode(true).firstElementChild;
    row.querySelector(".transfer__name").textContent = file.name;
    row.querySelector("progress").setAttribute("aria-label", file.name);
    return row;
  }

  #show(i, text, part, state = "") {
    const row = this.rows[i];
    row.className = `transfer__file${state ? ` transfer__file--${state}` : ""}`;
    row.querySelector(".transfer__state").textContent = text;
    row.querySelector("progress").value = part;
  }
}

function percent(part) {
  return `${Math.floor(part * 100)} %`;
}
