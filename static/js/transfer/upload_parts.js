// A large file in parts: several on their way at once, and after a break only what is missing.
// Storage answers the MD5 of what it got: only parts that it had before, or whose sum it does not
// tell, are read a second time.

import { NoAnswer, Refusal } from "../requests.js";
import { Hasher } from "./hashing.js";
import { PartAddresses } from "./part_addresses.js";
import { UploadError, isReadable, putBlob } from "./upload.js";

const PARALLEL = 4;
/** Workers that form sums, where they are needed: one more would take the time of those that send. */
const HASHERS = 2;
/** How often storage may lose everything before it is called broken. */
const RESTARTS = 3;
/** Answers in a row that are no success; without an answer there is no limit. */
const MOST_REFUSALS = 12;
/** Pauses before something is tried again. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/** Storage does not know the upload any more, or what it has is not what was sent. */
class Lost extends Error {}

export class PartsUpload {
  /**
   * parts: {upload, part_bytes, count, done, addresses}, as the server tells them
   * server: {addresses(upload, numbers), join(md5s), renew()}, promises of its answers; `renew` of
   *   new `parts`, or null if the file is whole
   * onChange({bytes, safe, count, state}): state is sending, waiting, paused or joining
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

  /** Send all parts and have them joined. Throws UploadError, Refusal or NoAnswer. */
  async run() {
    try {
      for (let restarts = 0; ; restarts += 1) {
        try {
          await this.#sendAll();
          return;
        } catch (error) {
          if (!(error instanceof Lost)) throw error;
          if (restarts === RESTARTS) throw new UploadError("refused");
          const parts = await this.#patiently(() => this.server.renew());
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
    this.broken.abort();
    this.#tell();
  }

  goOn() {
    this.isPaused = false;
    this.broken = new AbortController();
    this.failures = 0;
    this.wake();
    this.#tell();
  }

  #begin(parts) {
    this.parts = parts;
    this.stored = new Set(Object.keys(parts.done).map(Number));
    this.left = this.#numbers().filter((number) => !this.stored.has(number));
    this.addresses = new PartAddresses(parts.addresses ?? [], {
      ask: async (numbers) => (await this.server.addresses(parts.upload, numbers)).parts,
      left: () => this.left,
      ahead: PARALLEL,
    });
    this.flying = new Map();
    this.failures = 0;
    this.broken = new AbortController();
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
    // a Blob without a type: a File would bring a Content-Type that nobody signed
    return this.file.slice(start, start + this.#size(number), "");
  }

  async #sendAll() {
    const ending = new AbortController();
    this.ending = ending.signal;
    await this.#checkDone();
    this.#tell("sending");
    const sending = Array.from({ length: PARALLEL }, () => this.#sendEach());
    try {
      await Promise.all(sending);
    } catch (error) {
      ending.abort();
      this.broken.abort();
      // until then they change what the next try begins with
      await Promise.allSettled(sending);
      throw error;
    }
    // a browser refuses to read what changed since it was chosen: so may the last part be no more
    if (!(await isReadable(this.file))) throw new UploadError("unreadable");
    this.#tell("joining");
    try {
      await this.#patiently(() => this.server.join(this.#numbers().map((number) => this.sums.get(number))));
    } catch (error) {
      if (error.code === "upload_damaged" || error.code === "upload_missing") throw new Lost();
      throw error;
    }
  }

  /** What is stored must be of this very file, or its parts would be mixed with another one's. */
  async #checkDone() {
    const unknown = [...this.stored].filter((number) => this.sums.get(number) !== this.parts.done[number]);
    if (unknown.length) this.#tell("hashing");
    await Promise.all(unknown.map((number) => this.#sum(number)));
    const isOther = (number) => this.parts.done[number] !== this.sums.get(number);
    if (unknown.some(isOther)) throw new UploadError("other");
  }

  /** Read a part and form its sum. */
  async #sum(number) {
    const place = number % HASHERS;
    this.hashers[place] ??= new Hasher(this.hasherUrl);
    this.sums.set(number, await this.hashers[place].sum(this.#blob(number)));
  }

  async #sendEach() {
    while (!this.ending.aborted) {
      await this.#untilGoing();
      const number = this.left.shift();
      if (number === undefined) return;
      try {
        await this.#send(number);
        this.failures = 0;
        this.stored.add(number);
        this.flying.delete(number);
        this.#tell();
      } catch (error) {
        // what storage had of it is lost
        this.flying.delete(number);
        this.left.push(number);
        this.left.sort((a, b) => a - b);
        if (!(await this.#mayTryAgain(error))) throw error;
      }
    }
  }

  async #send(number) {
    const address = await this.addresses.take(number);
    this.flying.set(number, 0);
    const md5 = await putBlob(this.#blob(number), address, {
      signal: this.broken.signal,
      onProgress: (bytes) => {
        this.flying.set(number, bytes);
        this.#tell("sending");
      },
    });
    if (md5) this.sums.set(number, md5);
    else await this.#sum(number);
  }

  /** After a pause if it may pass; false if trying again is of no use. Throws Lost, UploadError. */
  async #mayTryAgain(error) {
    if (this.isPaused || this.ending.aborted) return true;
    if (error.code === "parts_restarted" || error.status === 404) throw new Lost();
    // 400 is also what S3 says to one that is too slow
    const passes = error instanceof NoAnswer || error.kind === "network" || [400, 429].includes(error.status);
    if (!passes || (error.status && this.failures > MOST_REFUSALS)) return false;
    // an address that ran out is no sign of a bad network
    if (error.status === 403) this.addresses.forget();
    if (error.status === 0 && !(await isReadable(this.file))) throw new UploadError("unreadable");
    this.failures += 1;
    this.#tell("waiting");
    await patience(this.failures, this.broken.signal);
    return true;
  }

  /** Ask our own server, however long it takes until it answers. Throws Refusal. */
  async #patiently(ask) {
    for (let failures = 1; ; failures += 1) {
      await this.#untilGoing();
      try {
        return await ask();
      } catch (error) {
        const isFull = error instanceof Refusal && error.status === 429;
        if (!isFull && (!(error instanceof NoAnswer) || error.status === 401)) throw error;
      }
      this.#tell("waiting");
      await patience(failures, this.broken.signal);
    }
  }

  async #untilGoing() {
    while (this.isPaused) {
      await new Promise((resolve) => {
        const before = this.wake;
        this.wake = () => {
          before();
          resolve();
        };
      });
    }
  }

  #tell(state = this.state) {
    this.state = state;
    let bytes = 0;
    for (const number of this.stored) bytes += this.#size(number);
    for (const [number, sent] of this.flying) if (!this.stored.has(number)) bytes += sent;
    const shown = this.isPaused ? "paused" : state;
    this.onChange({ bytes, safe: this.stored.size, count: this.parts.count, state: shown });
  }
}

/** Pauses that double, each spread over its second half, so that many browsers do not come back together. */
export function pauseMs(failures, random = Math.random) {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 10));
  return longest * (0.5 + random() / 2);
}

/** Wait for that long, or until the browser says that the network is back; `signal` ends it at once. */
export function patience(failures, signal) {
  return new Promise((resolve) => {
    const over = new AbortController();
    const end = () => {
      window.clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = window.setTimeout(end, pauseMs(failures));
    window.addEventListener("online", end, { signal: over.signal });
    signal?.addEventListener("abort", end, { signal: over.signal });
    if (signal?.aborted) end();
  });
}
