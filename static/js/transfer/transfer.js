// The panel that shows files on their way: one row each, what went wrong, retry and abandon.

import { NoAnswer, Refusal, deleteAt, postJson } from "../requests.js";
import { Hasher } from "./hashing.js";
import { TransferRow } from "./row.js";
import { UploadError, sendFile } from "./upload.js";
import { PartsUpload } from "./upload_parts.js";

export class Transfer {
  /**
   * files: File objects, in the order of the task's own files
   * ids: the server's names of them, if it knows them already
   */
  constructor(files, login, ids = null) {
    this.panel = document.getElementById("transfer");
    this.texts = this.panel.dataset;
    this.login = login;
    this.files = files;
    this.ids = ids;
    this.current = null;
    this.stored = new Set();
    this.rows = files.map((file) => new TransferRow(file, this.texts));
    document.getElementById("transfer-list").replaceChildren(...this.rows.map((row) => row.element));
    this.panel.hidden = false;
    this.pauseButton = document.getElementById("transfer-pause");
    this.pauseButton.disabled = true;
    this.pauseButton.hidden = !files.some((file) => this.#comesInParts(file));
    this.pauseButton.onclick = () => this.#turn();
    this.warn = (event) => event.preventDefault();
    window.addEventListener("beforeunload", this.warn);
  }

  /** From now on the page may be left without a question. */
  release() {
    window.removeEventListener("beforeunload", this.warn);
  }

  /** Return the checksums of all files; empty for large ones, whose parts are summed on their way. */
  async hashAll() {
    const hasher = new Hasher(this.texts.hasher);
    const sums = [];
    try {
      for (const [i, file] of this.files.entries()) {
        sums.push(this.#comesInParts(file) ? "" : await this.#hash(i, file, hasher));
        this.rows[i].show(this.texts.ready, 0);
      }
    } finally {
      hasher.close();
    }
    return sums;
  }

  async #hash(i, file, hasher) {
    this.rows[i].hashing(0);
    try {
      return await hasher.sum(file, (part) => this.rows[i].hashing(part));
    } catch (error) {
      this.rows[i].failed();
      throw error;
    }
  }

  #comesInParts(file) {
    const from = Number(this.texts.partsFrom);
    return from > 0 && file.size >= from;
  }

  /**
   * Send what is not stored yet, then submit the task; goes to its page, or throws.
   *
   * targets: where to send the files, in their order, or null to ask for it
   * urls: {uploads, submit, files, page}
   */
  async sendAll(targets, urls) {
    this.problem(null);
    this.ids ??= targets.map((target) => target.file);
    const fresh = async (i) => {
      const { uploads } = await this.#post(urls.uploads);
      return uploads.find((target) => target.file === this.ids[i]) ?? null;
    };
    for (const [i, file] of this.files.entries()) {
      if (this.stored.has(i)) continue;
      const target = targets?.[i] ?? (await fresh(i));
      if (target?.parts) await this.#sendParts(i, file, target, { urls, fresh: () => fresh(i) });
      else await this.#send(i, file, target, () => fresh(i));
    }
    try {
      await this.#post(urls.submit);
    } catch (error) {
      error.isOfSubmit = true;
      // storage does not have what it said it had: send everything once more
      if (error.code === "upload_missing" || error.code === "upload_damaged") this.stored.clear();
      throw error;
    }
    this.release();
    window.location.assign(urls.page);
  }

  /**
   * Upload and confirm until it works; false if the reader gave up; then `urls.cancel` was asked, or
   * what is at `urls.remove` was deleted.
   *
   * isFinal(error): whether retrying cannot help; throws such errors. `error.isOfSubmit` is true for
   * errors of `urls.submit`
   * @param {(error: any) => boolean} isFinal
   */
  async run(targets, urls, isFinal = () => false) {
    let known = targets;
    for (;;) {
      try {
        await this.sendAll(known, urls);
        return true;
      } catch (error) {
        if (isFinal(error)) throw error;
        if (!(await this.decide(error, urls))) return false;
        known = null;
      }
    }
  }

  /** Offer retry and abandon; resolves to true for retry, after abandoning to false. */
  decide(error, { cancel, remove }) {
    this.problem(this.cause(error));
    // a file that cannot be an input will not get better, nor will one that is not the wanted one
    const isWrong = error.code?.startsWith("input_") || error.kind === "other";
    document.getElementById("transfer-retry").hidden = Boolean(isWrong);
    const choice = (id) =>
      new Promise((resolve) => {
        document.getElementById(id).addEventListener("click", resolve, { once: true });
      });
    const abandon = choice("transfer-abandon").then(async () => {
      try {
        if (remove) await deleteAt(remove, { login: this.login });
        else if (cancel) await this.#post(cancel);
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
    if (error instanceof NoAnswer && error.status === 401) return this.texts.session;
    if (error instanceof NoAnswer) return error.status ? `${this.texts.unexpected} (HTTP ${error.status})` : this.texts.server;
    throw error;
  }

  /** Show a problem, or none. */
  problem(text) {
    document.getElementById("transfer-problem").hidden = text === null;
    document.getElementById("transfer-cause").textContent = text ?? "";
    if (text !== null) document.getElementById("transfer-problem").scrollIntoView({ block: "center" });
  }

  hide() {
    this.release();
    this.panel.hidden = true;
  }

  #post(url, body = {}) {
    return postJson(url, body, { login: this.login });
  }

  async #send(i, file, target, freshTarget) {
    const row = this.rows[i];
    if (target === null) {
      this.#end(i);
      return;
    }
    row.sending(0);
    try {
      await sendFile(file, target, {
        freshTarget,
        onProgress: (part) => row.sending(file.size * part),
        onRetry: () => row.retrying(),
      });
    } catch (error) {
      this.rows[i].failed();
      throw error;
    }
    this.#end(i);
  }

  async #sendParts(i, file, target, { urls, fresh }) {
    const place = `${urls.files}${target.file}/`;
    const server = {
      addresses: (upload, numbers) =>
        this.#post(`${place}parts/`, { upload, parts: numbers.map((number) => ({ number })) }),
      join: (md5s) => this.#post(`${place}join/`, { md5s }),
      renew: async () => (await fresh())?.parts ?? null,
    };
    const onChange = (change) => this.rows[i].parts(change);
    const { hasher } = this.texts;
    this.current = new PartsUpload(file, target.parts, { server, hasher, onChange });
    this.pauseButton.disabled = false;
    try {
      await this.current.run();
    } catch (error) {
      this.rows[i].failed();
      throw error;
    } finally {
      this.pauseButton.disabled = true;
      this.current = null;
    }
    this.#end(i);
  }

  #end(i) {
    this.stored.add(i);
    this.rows[i].stored();
  }

  #turn() {
    if (this.current.isPaused) this.current.goOn();
    else this.current.pause();
    this.pauseButton.textContent = this.current.isPaused ? this.texts.goOn : this.texts.pause;
  }
}
