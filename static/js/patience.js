// How long to wait before something is tried again.

const FIRST_MS = 1_000;
const LONGEST_MS = 30_000;

/** Pauses that double, each spread over its second half, so that many browsers do not come back together. */
export function pauseMs(failures, random = Math.random) {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures, 10));
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
