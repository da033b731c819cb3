// The page's side of the iframe in which Perfetto draws; `js/perfetto/bridge.js` is the iframe's side.

import { putViewer } from "../../viewer.js";

const PING_MS = 100;
const READY_MS = 60_000;
const DRAWN_MS = 300_000;
/** Perfetto's keys for the commands of a timeline; it has none for the whole trace. */
const KEYS = { in: "w", out: "s", left: "a", right: "d" };

/** The viewer did not load, or could not show the trace. */
export class ViewerError extends Error {}

/** Put Perfetto into `stage`. Returns {open(buffer, title), move(command), remove()}. */
export function makeFrame(stage, { address, title }) {
  /** @type {(message: any) => void} */
  let listen = () => {};
  let stop = () => {};
  const viewer = putViewer(stage, { address, title, className: "timeline__frame", onMessage: (message) => listen(message) });

  /** Resolve with the first message from the frame for which `matches(message)` is true. */
  function waitFor(matches, limitMs) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => end(reject, new ViewerError()), limitMs);
      function end(settle, value) {
        clearTimeout(timer);
        listen = () => {};
        settle(value);
      }
      listen = (message) => {
        if (message.kind === "failed") end(reject, new ViewerError());
        else if (matches(message)) end(resolve);
      };
      stop = () => end(reject, new ViewerError());
    });
  }

  async function ready() {
    const pinging = setInterval(() => viewer.post("PING"), PING_MS);
    try {
      await waitFor((message) => message === "PONG", READY_MS);
    } finally {
      clearInterval(pinging);
    }
  }

  const isReady = ready();
  isReady.catch(() => {}); // `open` reports it

  return {
    /** Show a trace. `buffer` is transferred to the frame and unusable afterwards. Throws ViewerError. */
    async open(buffer, name) {
      await isReady;
      const drawn = waitFor((message) => message.kind === "drawn", DRAWN_MS);
      viewer.post({ perfetto: { buffer, title: name } }, [buffer]);
      await drawn;
    },
    /** Zoom or pan as a key inside the frame does, and move the focus there. */
    move(command) {
      viewer.frame.focus();
      if (command in KEYS) viewer.post({ kind: "key", key: KEYS[command] });
    },
    remove() {
      stop();
      viewer.remove();
    },
  };
}
