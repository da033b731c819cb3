// A WebSocket that comes back by itself: jittered waits of 0.5 to 30 s.

const SHORTEST_MS = 500;
const LONGEST_MS = 30_000;
/** A connection that held this long was a good one: the next wait begins anew. */
const GOOD_AFTER_MS = 10_000;

export const CLOSED_NOT_LOGGED_IN = 4401;
export const CLOSED_NOT_FOUND = 4404;
const FINAL = new Set([CLOSED_NOT_LOGGED_IN, CLOSED_NOT_FOUND]);

/** The wait before try number `tries` (from 0): a random point in the upper half of a doubling window. */
export function waitMs(tries, random = Math.random) {
  const window = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** Math.min(tries + 1, 16));
  return window * (0.5 + random() / 2);
}

/**
 * Keep a connection to `path`.
 *
 * hello(): the object to send after each connect (what was seen last), or null
 * onMessage(object), onUp(), onDown(): the last once for each loss
 * onEnd(code): the server closed for good; there will be no further try
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
      if (FINAL.has(event.code)) {
        ended = true;
        onEnd(event.code);
        return;
      }
      if (openedAt !== null && performance.now() - openedAt > GOOD_AFTER_MS) tries = 0;
      onDown();
      timer = window.setTimeout(connect, waitMs(tries));
      tries += 1;
    });
  }

  function hurry() {
    // back from sleep or from no network: no reason to sit out a long wait
    if (timer === null || ended) return;
    window.clearTimeout(timer);
    tries = 0;
    connect();
  }

  window.addEventListener("online", hurry);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") hurry();
  });
  // a page that is left must not flash its notice, one that comes back from the cache must reconnect
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
