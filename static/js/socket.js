// A WebSocket that reconnects by itself, with jittered exponential backoff of 0.5 to 30 s.

const SHORTEST_MS = 500;
const LONGEST_MS = 30_000;
/** A connection that lasted this long resets the backoff. */
const STABLE_AFTER_MS = 10_000;

export const CLOSED_NOT_LOGGED_IN = 4401;
export const CLOSED_NOT_FOUND = 4404;
const FINAL_CODES = new Set([CLOSED_NOT_LOGGED_IN, CLOSED_NOT_FOUND]);

/** The wait before reconnect number `tries` (from 0), ms: random in the upper half of a doubling window. */
export function waitMs(tries, random = Math.random) {
  const window = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** Math.min(tries + 1, 16));
  return window * (0.5 + random() / 2);
}

/**
 * Connect to `path` and reconnect after each loss.
 *
 * hello(): the object to send after each connect (the last event seen), or null
 * onMessage(object): called for each message
 * onUp(), onDown(): called once for each connect and each loss
 * onEnd(code): the server closed the connection for good; it is not opened again
 */
export function keepSocket(path, { hello, onMessage, onUp, onDown, onEnd }) {
  const url = new URL(path, window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  let tries = 0;
  let timer = null;
  let socket = null;
  let ended = false;

  function connect() {
    timer = null;
    let openedAt = null;
    socket = new WebSocket(url);
    socket.addEventListener("open", () => {
      openedAt = performance.now();
      const greeting = hello();
      if (greeting) socket.send(JSON.stringify(greeting));
      onUp();
    });
    socket.addEventListener("message", (event) => onMessage(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => {
      if (ended) return;
      if (FINAL_CODES.has(event.code)) {
        ended = true;
        onEnd(event.code);
        return;
      }
      if (openedAt !== null && performance.now() - openedAt > STABLE_AFTER_MS) tries = 0;
      onDown();
      timer = window.setTimeout(connect, waitMs(tries));
      tries += 1;
    });
  }

  /** Reconnect without the rest of a wait: the computer woke up, or the network is back. */
  function reconnectNow() {
    if (timer === null || ended) return;
    window.clearTimeout(timer);
    tries = 0;
    connect();
  }

  window.addEventListener("online", reconnectNow);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") reconnectNow();
  });
  // leaving the page must not show the notice of a lost connection; a page restored from the
  // back/forward cache must reconnect
  window.addEventListener("pagehide", () => {
    ended = true;
    window.clearTimeout(timer);
    socket?.close();
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) window.location.reload();
  });
  connect();
}
