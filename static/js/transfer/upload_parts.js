// Multipart upload of a large file: several parts in parallel; an interrupted upload resumes with the
// missing parts. Storage returns the MD5 of each part that it receives, so the page hashes only parts
// that were stored before, and parts whose MD5 storage does not return.

import { NoAnswer, Refusal } from "../requests.js";
import { Hasher } from "./hashing.js";
import { PartAddresses } from "./part_addresses.js";
import { UploadError, isReadable, putBlob } from "./upload.js";

const PARALLEL = 4;
/** Web Workers that hash parts; more of them would slow down the upload. */
const HASHERS = 2;
/** How often the upload is restarted after storage has lost it. */
const RESTARTS = 3;
/** Error responses in a row before the upload fails; requests without a response are retried forever. */
const MAX_REFUSALS = 12;
/** Limits of the exponential backoff. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/** Storage no longer has the upload, or has other bytes than were sent. */
class UploadLost extends Error {}

export class PartsUpload {
  /**
   * parts: {upload, part_bytes, count, done, addresses}, from the server; `done` maps part numbers to MD5
   * server: {addresses(upload, numbers), join(md5s), renew()}, which return promises of the server's
   *   responses; `renew` resolves to new `parts`, or to null if the file is complete
   * hasher: URL of the Web Worker that hashes parts
   * onChange({bytes, safe, count, state}): `safe` of `count` parts are stored; `state` is hashing,
   *   sending, waiting, paused or joining
   */
  constructor(file, parts, { server, hasher, onChange }) {
    this.file = file;
    this.server = server;
    this.hasherUrl = hasher;
    this.onChange = onChange;
    this.hashers = [];
    this.sums = new Map();
    this.isPaused = false;
    this.wake = () => {};
    this.#begin(parts);
  }

  /** Send all parts, then let the server join them. Throws UploadError, Refusal or NoAnswer. */
  async run() {
    try {
      for (let restarts = 0; ; restarts += 1) {
        try {
          await this.#sendAll();
          return;
        } catch (error) {
          if (!(error instanceof UploadLost)) throw error;
          if (restarts === RESTARTS) throw new UploadError("refused");
          const parts = await this.#request(() => this.server.renew());
          if (parts === null) return;
          this.#begin(parts);
        }
      }
    } finally {
      for (const hasher of this.hashers) hasher?.close();
    }
  }

  pause() {
    this.isPaused = true;
    this.transfers.abort();
    this.#report();
  }

  resume() {
    this.isPaused = false;
    this.transfers = new AbortController();
    this.failures = 0;
    this.wake();
    this.#report();
  }

  #begin(parts) {
    this.parts = parts;
    this.stored = new Set(Object.keys(parts.done).map(Number));
    this.remaining = this.#numbers().filter((number) => !this.stored.has(number));
    this.addresses = new PartAddresses(parts.addresses ?? [], {
      fetchAddresses: async (numbers) => (await this.server.addresses(parts.upload, numbers)).parts,
      remaining: () => this.remaining,
      ahead: PARALLEL,
    });
    this.inFlight = new Map();
    this.failures = 0;
    this.transfers = new AbortController();
    this.state = "sending";
  }

  #numbers() {
    return Array.from({ length: this.parts.count }, (_, i) => i + 1);
  }

  #size(number) {
    return Math.min(this.parts.part_bytes, this.file.size - (number - 1) * this.parts.part_bytes);
  }

  #blob(number) {
    const start = (number - 1) * this.parts.part_bytes;
    // a Blob without a type: a File would add a Content-Type that the signature does not cover
    return this.file.slice(start, start + this.#size(number), "");
  }

  async #sendAll() {
    const stop = new AbortController();
    this.stopSignal = stop.signal;
    await this.#checkStored();
    this.#report("sending");
    const senders = Array.from({ length: PARALLEL }, () => this.#sendRemaining());
    try {
      await Promise.all(senders);
    } catch (error) {
      stop.abort();
      this.transfers.abort();
      // the senders change this object until they have stopped
      await Promise.allSettled(senders);
      throw error;
    }
    // detects a change of the file after its last part was sent: browsers refuse to read changed files
    if (!(await isReadable(this.file))) throw new UploadError("unreadable");
    this.#report("joining");
    try {
      await this.#request(() => this.server.join(this.#numbers().map((number) => this.sums.get(number))));
    } catch (error) {
      if (error.code === "upload_damaged" || error.code === "upload_missing") throw new UploadLost();
      throw error;
    }
  }

  /** Compare the stored parts with this file, so that parts of two files are never mixed. Throws UploadError. */
  async #checkStored() {
    const unknown = [...this.stored].filter((number) => this.sums.get(number) !== this.parts.done[number]);
    if (unknown.length) this.#report("hashing");
    await Promise.all(unknown.map((number) => this.#sum(number)));
    const isOther = (number) => this.parts.done[number] !== this.sums.get(number);
    if (unknown.some(isOther)) throw new UploadError("other");
  }

  /** Read a part and store its MD5 in `sums`. */
  async #sum(number) {
    const index = number % HASHERS;
    this.hashers[index] ??= new Hasher(this.hasherUrl);
    this.sums.set(number, await this.hashers[index].sum(this.#blob(number)));
  }

  /** Send remaining parts, one after the other, until none is left. */
  async #sendRemaining() {
    while (!this.stopSignal.aborted) {
      await this.#waitWhilePaused();
      const number = this.remaining.shift();
      if (number === undefined) return;
      try {
        await this.#send(number);
        this.failures = 0;
        this.stored.add(number);
        this.inFlight.delete(number);
        this.#report();
      } catch (error) {
        // storage keeps nothing of an incomplete part
        this.inFlight.delete(number);
        this.remaining.push(number);
        this.remaining.sort((a, b) => a - b);
        if (!(await this.#waitForRetry(error))) throw error;
      }
    }
  }

  async #send(number) {
    const address = await this.addresses.take(number);
    this.inFlight.set(number, 0);
    const md5 = await putBlob(this.#blob(number), address, {
      signal: this.transfers.signal,
      onProgress: (bytes) => {
        this.inFlight.set(number, bytes);
        this.#report("sending");
      },
    });
    if (md5) this.sums.set(number, md5);
    else await this.#sum(number);
  }

  /** Wait before a retry and return true; return false if a retry cannot help. Throws UploadLost, UploadError. */
  async #waitForRetry(error) {
    if (this.isPaused || this.stopSignal.aborted) return true;
    if (error.code === "parts_restarted" || error.status === 404) throw new UploadLost();
    // S3 also responds with 400 (RequestTimeout) to slow clients
    const isTemporary = error instanceof NoAnswer || error.kind === "network" || [400, 429].includes(error.status);
    if (!isTemporary || (error.status && this.failures > MAX_REFUSALS)) return false;
    // 403: the URLs have expired
    if (error.status === 403) this.addresses.clear();
    if (error.status === 0 && !(await isReadable(this.file))) throw new UploadError("unreadable");
    this.failures += 1;
    this.#report("waiting");
    await backoff(this.failures, this.transfers.signal);
    return true;
  }

  /** Retry a request to the site's server until it responds. Throws Refusal, and NoAnswer when logged out. */
  async #request(send) {
    for (let failures = 1; ; failures += 1) {
      await this.#waitWhilePaused();
      try {
        return await send();
      } catch (error) {
        const isRateLimited = error instanceof Refusal && error.status === 429;
        if (!isRateLimited && (!(error instanceof NoAnswer) || error.status === 401)) throw error;
      }
      this.#report("waiting");
      await backoff(failures, this.transfers.signal);
    }
  }

  async #waitWhilePaused() {
    while (this.isPaused) {
      /** @type {Promise<void>} */
      const woken = new Promise((resolve) => {
        const previous = this.wake;
        this.wake = () => {
          previous();
          resolve();
        };
      });
      await woken;
    }
  }

  #report(state = this.state) {
    this.state = state;
    let bytes = 0;
    for (const number of this.stored) bytes += this.#size(number);
    for (const [number, sent] of this.inFlight) if (!this.stored.has(number)) bytes += sent;
    const { stored, parts } = this;
    this.onChange({ bytes, safe: stored.size, count: parts.count, state: this.isPaused ? "paused" : state });
  }
}

/** The wait after that many failures, ms: exponential backoff with jitter, so that browsers do not retry in step. */
export function backoffMs(failures, random = Math.random) {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 10));
  return longest * (0.5 + random() / 2);
}

/**
 * Wait for `backoffMs`, or until the browser is back online, or until `signal` aborts the wait.
 *
 * @returns {Promise<void>}
 */
export function backoff(failures, signal) {
  return new Promise((resolve) => {
    const listeners = new AbortController();
    const end = () => {
      window.clearTimeout(timer);
      listeners.abort();
      resolve();
    };
    const timer = window.setTimeout(end, backoffMs(failures));
    window.addEventListener("online", end, { signal: listeners.signal });
    signal?.addEventListener("abort", end, { signal: listeners.signal });
    if (signal?.aborted) end();
  });
}
