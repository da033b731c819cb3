// Getting files to object storage: checksum in a Web Worker, then one PUT each to a presigned address.

/** Why a file did not arrive: `kind` is unreadable, network or refused; `status` storage's answer. */
export class UploadError extends Error {
  constructor(kind, status = 0) {
    super(kind);
    this.kind = kind;
    this.status = status;
  }
}

/** Tries after the first, with fresh addresses each. */
const RETRIES = 2;
const RETRY_WAIT_MS = 1_500;
/** No byte for this long: the connection is dead although nobody said so. */
const STALLED_MS = 120_000;

/** Return the MD5 of a file in hexadecimal. onProgress(part of 1). Throws UploadError unreadable. */
export function hashFile(file, hasherUrl, onProgress) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(hasherUrl, { type: "module" });
    const end = (settle, value) => {
      worker.terminate();
      settle(value);
    };
    worker.addEventListener("error", () => end(reject, new UploadError("unreadable")));
    worker.addEventListener("message", ({ data }) => {
      if (data.md5) end(resolve, data.md5);
      else if (data.unreadable) end(reject, new UploadError("unreadable"));
      else onProgress(data.done / file.size);
    });
    worker.postMessage(file);
  });
}

/** PUT a file once. onProgress(part of 1). Throws UploadError. */
export function putFile(file, { url, headers }, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let stalled = null;
    const watch = () => {
      window.clearTimeout(stalled);
      stalled = window.setTimeout(() => request.abort(), STALLED_MS);
    };
    const fail = (kind, status) => {
      window.clearTimeout(stalled);
      reject(new UploadError(kind, status));
    };
    request.open("PUT", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      watch();
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    });
    request.addEventListener("load", () => {
      window.clearTimeout(stalled);
      if (request.status >= 200 && request.status < 300) resolve();
      // 5xx passes, and an address that ran out is replaced by the next try
      else fail(request.status >= 500 || request.status === 403 ? "network" : "refused", request.status);
    });
    request.addEventListener("error", () => fail("network", 0));
    request.addEventListener("abort", () => fail("network", 0));
    watch();
    // a Blob without a type: a File would bring a Content-Type that nobody signed
    request.send(file.slice(0, file.size, ""));
  });
}

/**
 * PUT a file, again with a fresh address after a network error.
 *
 * target: {url, headers}, or null if it must be fetched first
 * freshTarget(): a promise of a new one
 */
export async function sendFile(file, target, { freshTarget, onProgress, onRetry }) {
  let current = target;
  for (let retry = 0; ; retry += 1) {
    current ??= await freshTarget();
    try {
      await putFile(file, current, onProgress);
      return;
    } catch (error) {
      if (error.kind !== "network" || retry >= RETRIES) throw await explained(error, file);
    }
    onRetry();
    await new Promise((resolve) => window.setTimeout(resolve, RETRY_WAIT_MS * (retry + 1)));
    current = null;
  }
}

/** A browser reports a file that vanished as a network error: look. */
async function explained(error, file) {
  if (error.kind !== "network") return error;
  // an answer, and the same to fresh addresses: no matter of the network
  if (error.status) return new UploadError("refused", error.status);
  try {
    await file.slice(0, 1).arrayBuffer();
    return error;
  } catch {
    return new UploadError("unreadable");
  }
}
