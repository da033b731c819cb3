// Checksums in Web Workers: of whole files, and of the parts of large ones.

import { UploadError } from "./upload.js";

/** Workers that sum one piece after the other; each ends with `close`. */
export class Hasher {
  constructor(url) {
    this.worker = new Worker(url, { type: "module" });
    this.last = Promise.resolve();
  }

  /** Return the MD5 of a Blob in hexadecimal. onProgress(part of 1). Throws UploadError unreadable, assembly. */
  sum(blob, onProgress = () => {}) {
    const found = this.last.then(() => this.#sum(blob, onProgress));
    this.last = found.catch(() => {});
    return found;
  }

  close() {
    this.worker.terminate();
  }

  #sum(blob, onProgress) {
    return new Promise((resolve, reject) => {
      const heard = new AbortController();
      const end = (settle, value) => {
        heard.abort();
        settle(value);
      };
      const options = { signal: heard.signal };
      this.worker.addEventListener("error", () => end(reject, new UploadError("unreadable")), options);
      this.worker.addEventListener(
        "message",
        ({ data }) => {
          if (data.md5) end(resolve, data.md5);
          else if (data.failed) end(reject, new UploadError(data.failed));
          else onProgress(data.done / blob.size);
        },
        options,
      );
      this.worker.postMessage(blob);
    });
  }
}
