// MD5 checksums, computed in Web Workers: of whole files, and of the parts of large files.

import { UploadError } from "./upload.js";

/** One Web Worker that hashes Blobs one after the other, until `close`. */
export class Hasher {
  constructor(url) {
    this.worker = new Worker(url, { type: "module" });
    this.last = Promise.resolve();
  }

  /**
   * Return the MD5 of a Blob in hexadecimal. Throws UploadError of kind "unreadable" or "assembly".
   *
   * onProgress(fraction): the fraction that is hashed, 0 to 1
   */
  sum(blob, onProgress = () => {}) {
    const result = this.last.then(() => this.#sum(blob, onProgress));
    this.last = result.catch(() => {});
    return result;
  }

  close() {
    this.worker.terminate();
  }

  #sum(blob, onProgress) {
    return new Promise((resolve, reject) => {
      const listeners = new AbortController();
      const end = (settle, value) => {
        listeners.abort();
        settle(value);
      };
      const options = { signal: listeners.signal };
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
