// The page's side of the frame that Perfetto draws in; `js/perfetto/bridge.js` is the other side.

const PING_MS = 100;
const READY_MS = 60_000;
const DRAWN_MS = 300_000;

/** The viewer did not come, or could not show the trace. */
export class NotShown extends Error {}

/** Put a frame into `stage`: {open(buffer, title), remove()}. */
export function makeFrame(stage, { address, title }) {
  const frame = document.createElement("iframe");
  frame.className = "timeline__frame";
  frame.title = title;
  frame.src = address;
  frame.referrerPolicy = "no-referrer";
  frame.setAttribute("sandbox", "allow-scripts");
  stage.replaceChildren(frame);
  let stop = () => {};

  /** Resolves when `isAnswer` says so of what the frame tells. */
  function heard(isAnswer, limitMs) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => end(reject, new NotShown()), limitMs);
      function end(settle, value) {
        clearTimeout(timer);
        removeEventListener("message", listen);
        settle(value);
      }
      function listen(event) {
        // the viewer's page has an origin of its own, which is written "null"
        if (event.source !== frame.contentWindow || event.origin !== "null") return;
        if (event.data?.kind === "failed") end(reject, new NotShown());
        else if (isAnswer(event.data)) end(resolve);
      }
      addEventListener("message", listen);
      stop = () => end(reject, new NotShown());
    });
  }

  // no address names that origin; the policy of this page keeps all others out of the frame
  const say = (message, transfer = []) => frame.contentWindow?.postMessage(message, "*", transfer);

  async function ready() {
    const pinging = setInterval(() => say("PING"), PING_MS);
    try {
      await heard((answer) => answer === "PONG", READY_MS);
    } finally {
      clearInterval(pinging);
    }
  }

  const isReady = ready();
  isReady.catch(() => {}); // whoever opens a trace hears of it

  return {
    /** Show a trace; `buffer` is gone then. Throws NotShown. */
    async open(buffer, name) {
      await isReady;
      const drawn = heard((answer) => answer?.kind === "drawn", DRAWN_MS);
      say({ perfetto: { buffer, title: name } }, [buffer]);
      await drawn;
    },
    remove() {
      stop();
      frame.remove();
    },
  };
}
