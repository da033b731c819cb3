// The page's side of the iframe in which Perfetto draws; `js/perfetto/bridge.js` is the iframe's side.

import { isDark, onTheme } from "../../theme.js";

const PING_MS = 100;
const READY_MS = 60_000;
const DRAWN_MS = 300_000;
/** Perfetto's keys for the commands of a timeline; it has none for the whole trace. */
const KEYS = { in: "w", out: "s", left: "a", right: "d" };

/** The viewer did not load, or could not show the trace. */
export class ViewerError extends Error {}

/** Put a viewer's iframe into `stage`. Returns {open(buffer, title), move(command), remove()}. */
export function makeFrame(stage, { address, title }) {
  const frame = document.createElement("iframe");
  frame.className = "timeline__frame";
  frame.title = title;
  frame.name = isDark() ? "dark" : "light";
  frame.src = address;
  frame.referrerPolicy = "no-referrer";
  frame.setAttribute("sandbox", "allow-scripts");
  stage.replaceChildren(frame);
  let stop = () => {};

  /** Resolve with the first message from the frame for which `matches(message)` is true. */
  function waitFor(matches, limitMs) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => end(reject, new ViewerError()), limitMs);
      function end(settle, value) {
        clearTimeout(timer);
        removeEventListener("message", listen);
        settle(value);
      }
      function listen(event) {
        // the viewer's page has an opaque origin, which events report as "null"
        if (event.source !== frame.contentWindow || event.origin !== "null") return;
        if (event.data?.kind === "failed") end(reject, new ViewerError());
        else if (matches(event.data)) end(resolve);
      }
      addEventListener("message", listen);
      stop = () => end(reject, new ViewerError());
    });
  }

  // an opaque origin cannot be named as the target; this page's CSP allows only the viewer in the iframe
  const post = (message, transfer = []) => frame.contentWindow?.postMessage(message, "*", transfer);

  const stopTheme = onTheme(() => post({ kind: "theme", isDark: isDark() }));

  async function ready() {
    const pinging = setInterval(() => post("PING"), PING_MS);
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
      const drawn = waitFor((message) => message?.kind === "drawn", DRAWN_MS);
      post({ perfetto: { buffer, title: name } }, [buffer]);
      await drawn;
    },
    /** Zoom or pan as a key inside the frame does, and move the focus there. */
    move(command) {
      frame.focus();
      if (command in KEYS) post({ kind: "key", key: KEYS[command] });
    },
    remove() {
      stop();
      stopTheme();
      frame.remove();
    },
  };
}
