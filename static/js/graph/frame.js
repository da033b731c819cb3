// The page's side of the iframe in which Netron draws; `js/netron/bridge.js` is the iframe's side.

import { putViewer } from "../viewer.js";

const READY_MS = 30_000;
const DRAWN_MS = 60_000;

/** The viewer did not load or could not draw; `message` is its error message, or empty. */
export class DrawError extends Error {}

/**
 * Put Netron into `stage`. `onMessage` is called for the user's actions in it:
 * {kind: "selected" | "entered", node}, {kind: "saved", file, name} and {kind: "left"}.
 */
export function makeFrame(stage, { address, title, onMessage }) {
  const { frame, post, remove } = putViewer(stage, { address, title, className: "graph__frame", onMessage: listen });
  /** The message that is awaited: {kind, resolve, reject}. */
  let waiting = null;
  let number = 0;
  let isShown = false;
  const observer = new IntersectionObserver(([entry]) => (isShown = entry.isIntersecting));
  observer.observe(frame);

  /** Resolve with the next message of that kind. */
  function waitFor(kind, limitMs) {
    return new Promise((resolve, reject) => {
      let timer = 0;
      // Netron draws in animation frames, and a browser runs none while it does not show the frame
      const expire = () => {
        if (isShown && document.visibilityState === "visible") reject(new DrawError(""));
        else timer = setTimeout(expire, limitMs);
      };
      timer = setTimeout(expire, limitMs);
      waiting?.reject(new DrawError(""));
      waiting = {
        kind,
        resolve: (message) => {
          clearTimeout(timer);
          resolve(message);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
    });
  }

  function settle(message) {
    const { resolve, reject } = waiting;
    waiting = null;
    if (message.kind === "failed") reject(new DrawError(String(message.reason ?? "")));
    else resolve(message);
  }

  function listen(message) {
    const isAnswer = message.kind === waiting?.kind || (waiting && message.kind === "failed");
    if (isAnswer && (message.number ?? 0) === number) settle(message);
    else if (["selected", "entered", "saved", "left"].includes(message.kind)) onMessage(message);
  }

  const ready = waitFor("ready", READY_MS);
  ready.catch(() => {}); // `open` reports it

  return {
    /**
     * Draw a file, whose format Netron detects by the suffix of `name`. times: of the nodes of a model,
     * {name: [row, text, colour class]}. Resolves with {matched}, the number of nodes with a time. Throws DrawError.
     */
    async open(file, name, times = {}) {
      await ready;
      number += 1;
      const drawn = waitFor("drawn", DRAWN_MS);
      post({ kind: "open", number, file, name, times });
      return drawn;
    },
    select(node) {
      post({ kind: "select", node });
    },
    focus() {
      frame.focus();
    },
    remove() {
      observer.disconnect();
      waiting = null;
      remove();
    },
  };
}

/**
 * GET `url` and return `read(response)`. Throws DrawError with the server's error message, if there is
 * one. If the session has ended, the page is reloaded, which leads to the login page.
 */
export async function fetchContent(url, read) {
  const address = new URL(url, location.href);
  let response;
  try {
    response = await fetch(address, { headers: { Accept: "application/json" } });
    if (response.ok && !response.redirected) return await read(response);
  } catch {
    throw new DrawError("");
  }
  const isLoggedOut = response.redirected || response.status === 401;
  if (isLoggedOut && address.origin === location.origin) location.reload();
  throw new DrawError(await errorMessage(response));
}

async function errorMessage(response) {
  try {
    return (await response.json()).detail ?? "";
  } catch {
    return "";
  }
}
