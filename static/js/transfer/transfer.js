// The transfer panel: one row for each file, error messages, pause, retry and abandon.

import { fill } from "../format.js";
import { NoAnswer, Refusal, deleteAt, postJson } from "../requests.js";
import { Hasher } from "./hashing.js";
import { TransferRow } from "./row.js";
import { UploadError, sendFile } from "./upload.js";
import { PartsUpload } from "./upload_parts.js";

export class Transfer {
  /**
   * files: File objects, in the order of the files of the task or import
   * ids: their ids on the server, if they exist there already
   */
  constructor(files, login, ids = null) {
    this.panel = document.getElementById("transfer");
    this.texts = this.panel.dataset;
    this.login = login;
    this.files = files;
    this.ids = ids;
    this.current = null;
    this.isPaused = false;
    this.stored = new Set();
    this.rows = files.map((file) => new TransferRow(file, this.texts));
    document.getElementById("transfer-list").replaceChildren(...this.rows.map((row) => row.element));
    this.panel.hidden = false;
    this.pauseButton = document.getElementById("transfer-pause");
    this.pauseButton.disabled = true;
    this.pauseButton.textContent = this.texts.pause;
    this.pauseButton.hidden = !files.some((file) => this.#isMultipart(file));
    this.pauseButton.onclick = () => this.#togglePause();
    this.warn = (event) => event.preventDefault();
    this.hold();
  }

  /** Ask for confirmation when the user leaves the page. */
  hold() {
    window.addEventListener("beforeunload", this.warn);
  }

  /** Stop asking for confirmation when the user leaves the page. */
  release() {
    window.removeEventListener("beforeunload", this.warn);
  }

  /** Return the MD5 of all files; empty for large files, whose parts are hashed during the upload. */
  async hashAll() {
    const hasher = new Hasher(this.texts.hasher);
    const sums = [];
    try {
      for (const [i, file] of this.files.entries()) {
        sums.push(this.#isMultipart(file) ? "" : await this.#hash(i, file, hasher));
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
      return await hasher.sum(file, (fraction) => this.rows[i].hashing(fraction));
    } catch (error) {
      throw this.#failed(i, error);
    }
  }

  /** Show that a file failed; returns the error, which then names the file. */
  #failed(i, error) {
    this.rows[i].failed();
    error.file = this.files[i].name;
    return error;
  }

  #isMultipart(file) {
    const threshold = Number(this.texts.partsFrom);
    return threshold > 0 && file.size >= threshold;
  }

  /**
   * Send the files that are not stored yet, submit the task or import, and go to its page.
   *
   * targets: upload targets in the order of the files, or null to fetch them
   * urls: {uploads, submit, files, page}
   */
  async sendAll(targets, urls) {
    this.problem(null);
    this.ids ??= targets.map((target) => target.file);
    const fetchTarget = async (i) => {
      const { uploads } = await this.#post(urls.uploads);
      return uploads.find((target) => target.file === this.ids[i]) ?? null;
    };
    for (const [i, file] of this.files.entries()) {
      if (this.stored.has(i)) continue;
      const target = targets?.[i] ?? (await fetchTarget(i));
      if (target?.parts) await this.#sendParts(i, file, target, { urls, fetchTarget: () => fetchTarget(i) });
      else await this.#send(i, file, target, () => fetchTarget(i));
    }
    try {
      await this.#post(urls.submit);
    } catch (error) {
      error.isFromSubmit = true;
      // storage lacks a file that it had acknowledged: send everything again
      if (error.code === "upload_missing" || error.code === "upload_damaged") this.stored.clear();
      throw error;
    }
    this.release();
    window.location.assign(urls.page);
  }

  /**
   * Upload and submit, with retries by the user. Returns false if the user abandons the upload; then
   * `urls.cancel` has been posted, or the resource at `urls.remove` deleted.
   *
   * isFinal(error): whether a retry cannot help; such errors are thrown. `error.isFromSubmit` is true
   * for errors of `urls.submit`
   * @param {(error: any) => boolean} isFinal
   */
  async run(targets, urls, isFinal = () => false) {
    let current = targets;
    for (;;) {
      try {
        await this.sendAll(current, urls);
        return true;
      } catch (error) {
        if (isFinal(error)) throw error;
        if (!(await this.decide(error, urls))) return false;
        current = null;
      }
    }
  }

  /** Show the error and wait for the user: true for retry, false once the upload is abandoned. */
  decide(error, { cancel, remove }) {
    this.problem(this.cause(error));
    // a retry cannot help if the file is not a valid input, or not the file of the first attempt
    const isHopeless = error.code?.startsWith("input_") || error.kind === "other";
    document.getElementById("transfer-retry").hidden = Boolean(isHopeless);
    const clickOn = (id) =>
      new Promise((resolve) => {
        document.getElementById(id).addEventListener("click", resolve, { once: true });
      });
    const abandon = clickOn("transfer-abandon").then(async () => {
      try {
        if (remove) await deleteAt(remove, { login: this.login });
        else if (cancel) await this.#post(cancel);
      } catch {
        // the server ends the task when its time limit for uploads is over
      }
      this.release();
      return false;
    });
    return Promise.race([clickOn("transfer-retry").then(() => true), abandon]);
  }

  /** The message for an error; rethrows unexpected errors. */
  cause(error) {
    if (error instanceof UploadError) {
      return fill(this.texts[error.kind], { name: error.file }) + (error.status ? ` (HTTP ${error.status})` : "");
    }
    if (error instanceof Refusal) return error.message;
    if (error instanceof NoAnswer && error.status === 401) return this.texts.session;
    if (error instanceof NoAnswer) return error.status ? `${this.texts.unexpected} (HTTP ${error.status})` : this.texts.server;
    throw error;
  }

  /** Show a problem, or hide the last one for null. */
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

  async #send(i, file, target, fetchTarget) {
    const row = this.rows[i];
    if (target === null) {
      this.#end(i);
      return;
    }
    row.sending(0);
    try {
      await sendFile(file, target, {
        fetchTarget,
        onProgress: (fraction) => row.sending(file.size * fraction),
        onRetry: () => row.retrying(),
      });
    } catch (error) {
      throw this.#failed(i, error);
    }
    this.#end(i);
  }

  async #sendParts(i, file, target, { urls, fetchTarget }) {
    const url = `${urls.files}${target.file}/`;
    const server = {
      addresses: (upload, numbers) =>
        this.#post(`${url}parts/`, { upload, parts: numbers.map((number) => ({ number })) }),
      join: (md5s) => this.#post(`${url}join/`, { md5s }),
      renew: async () => (await fetchTarget())?.parts ?? null,
    };
    const onChange = (change) => this.rows[i].parts(change);
    const { hasher } = this.texts;
    this.current = new PartsUpload(file, target.parts, { server, hasher, onChange });
    if (this.isPaused) this.current.pause();
    this.pauseButton.disabled = false;
    try {
      await this.current.run();
    } catch (error) {
      throw this.#failed(i, error);
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

  #togglePause() {
    this.isPaused = !this.isPaused;
    if (this.isPaused) this.current.pause();
    else this.current.resume();
    this.pauseButton.textContent = this.isPaused ? this.texts.goOn : this.texts.pause;
  }
}
