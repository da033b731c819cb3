// Getting files to object storage: one PUT each to a presigned address.

/** Why a file did not arrive: `kind` is unreadable, assembly, network, refused or other; `status` storage's answer. */
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

const MD5 = /^"?([0-9a-f]{32})"?$/;

/**
 * PUT a Blob once. onProgress(bytes); `signal` breaks it off. Throws UploadError.
 *
 * Resolves to the MD5 that storage formed (its ETag); to "" where it tells none, or not to this page.
 */
export function putBlob(blob, { url, headers }, { onProgress, signal = null }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const over = new AbortController();
    let stalled = null;
    const watch = () => {
      window.clearTimeout(stalled);
      stalled = window.setTimeout(() => request.abort(), STALLED_MS);
    };
    const end = (settle, value) => {
      window.clearTimeout(stalled);
      over.abort();
      settle(value);
    };
    const fail = (kind, status) => end(reject, new UploadError(kind, status));
    request.open("PUT", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      watch();
      onProgress(event.loaded);
    });
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) end(resolve, etagOf(request));
      // 5xx passes, and an address that ran out is replaced by the next try
      else fail(request.status >= 500 || [403, 429].includes(request.status) ? "network" : "refused", request.status);
    });
    request.addEventListener("error", () => fail("network", 0));
    request.addEventListener("abort", () => fail("network", 0));
    signal?.addEventListener("abort", () => request.abort(), { signal: over.signal });
    watch();
    if (signal?.aborted) fail("network", 0);
    else request.send(blob);
  });
}

function etagOf(request) {
  return MD5.exec(request.getResponseHeader("ETag") ?? "")?.[1] ?? "";
}

/**
 * PUT a file, again with a fresh address after a network error.
 *
 * target: {url, headers}, or null if it must be fetched first
 * freshTarget(): a promise of a new one, or of null if storage holds the file already
 */
export async function sendFile(file, target, { freshTarget, onProgress, onRetry }) {
  let current = target;
  for (let retry = 0; ; retry += 1) {
    current ??= await freshTarget();
    if (!current) return;
    try {
      // a Blob without a type: a File would bring a Content-Type that nobody signed
      const blob = file.slice(0, file.size, "");
      await putBlob(blob, current, { onProgress: (bytes) => onProgress(bytes / file.size) });
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
  return (await isReadable(file)) ? error : new UploadError("unreadable");
}

/** Whether a chosen file is still there. */
export async function isReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}
