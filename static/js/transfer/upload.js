// Upload files to object storage, with one PUT request each to a presigned URL.

/**
 * A failed upload. `status`: the HTTP status from storage, or 0. `file`: the name of the file. `kind`:
 *
 * - unreadable: the file changed, moved or was deleted after the user chose it
 * - assembly: the browser does not run WebAssembly
 * - network: no response, or one after which a retry may succeed
 * - refused: storage rejected the upload
 * - other: the parts in storage belong to another file
 */
export class UploadError extends Error {
  constructor(kind, status = 0, file = "") {
    super(kind);
    this.kind = kind;
    this.status = status;
    this.file = file;
  }
}

/** Retries after the first attempt, each with a new presigned URL. */
const RETRIES = 2;
const RETRY_WAIT_MS = 1_500;
/** Abort a request without progress for this long, since a dead connection may report no error. */
const STALLED_MS = 120_000;

const MD5 = /^"?([0-9a-f]{32})"?$/;

/**
 * PUT a Blob once, without retries. `signal` aborts the request. Throws UploadError.
 *
 * Resolves to the MD5 that storage computed (the ETag), or to "" if the ETag is not an MD5 or CORS
 * hides it from the page.
 */
export function putBlob(blob, { url, headers }, { onProgress, signal = null }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const listeners = new AbortController();
    let stalled = null;
    const restartTimer = () => {
      window.clearTimeout(stalled);
      stalled = window.setTimeout(() => request.abort(), STALLED_MS);
    };
    const end = (settle, value) => {
      window.clearTimeout(stalled);
      listeners.abort();
      settle(value);
    };
    const fail = (kind, status) => end(reject, new UploadError(kind, status));
    request.open("PUT", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      restartTimer();
      onProgress(event.loaded);
    });
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) end(resolve, etagOf(request));
      // 5xx and 429 are temporary, and after 403 (an expired URL) the retry gets a new URL
      else fail(request.status >= 500 || [403, 429].includes(request.status) ? "network" : "refused", request.status);
    });
    request.addEventListener("error", () => fail("network", 0));
    request.addEventListener("abort", () => fail("network", 0));
    signal?.addEventListener("abort", () => request.abort(), { signal: listeners.signal });
    restartTimer();
    if (signal?.aborted) fail("network", 0);
    else request.send(blob);
  });
}

function etagOf(request) {
  return MD5.exec(request.getResponseHeader("ETag") ?? "")?.[1] ?? "";
}

/**
 * PUT a file, and retry with a new target after network errors.
 *
 * target: {url, headers}, or null if it must be fetched first
 * fetchTarget(): a promise of a new target, or of null if storage already has the file
 * onProgress(fraction): the fraction sent, 0 to 1
 */
export async function sendFile(file, target, { fetchTarget, onProgress, onRetry }) {
  let current = target;
  for (let retry = 0; ; retry += 1) {
    current ??= await fetchTarget();
    if (!current) return;
    try {
      // a Blob without a type: a File would add a Content-Type that the signature does not cover
      const blob = file.slice(0, file.size, "");
      await putBlob(blob, current, { onProgress: (bytes) => onProgress(bytes / file.size) });
      return;
    } catch (error) {
      if (error.kind !== "network" || retry >= RETRIES) throw await classify(error, file);
    }
    onRetry();
    await new Promise((resolve) => window.setTimeout(resolve, RETRY_WAIT_MS * (retry + 1)));
    current = null;
  }
}

/** Return the error with its real cause: browsers report an unreadable file as a network error. */
async function classify(error, file) {
  if (error.kind !== "network") return error;
  // storage responded with the same error to new URLs: the network is not the cause
  if (error.status) return new UploadError("refused", error.status);
  return (await isReadable(file)) ? error : new UploadError("unreadable");
}

/** Whether a chosen file still exists unchanged. */
export async function isReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}
