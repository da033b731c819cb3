// The page's side of the frame that Netron draws in; `js/netron/bridge.js` is the other side.

const READY_MS = 30_000;
const DRAWN_MS = 60_000;

/** The viewer did not come, or could not draw; `message` is its own word on it, or empty. */
export class NotDrawn extends Error {}

/**
 * Put a frame into `stage`. `heard` is called with what the reader does in it:
 * {kind: "selected" | "entered", node}, {kind: "saved", file, name} and {kind: "left"}.
 */
export function makeFrame(stage, { address, title, heard }) {
  const frame = document.createElement("iframe");
  frame.className = "graph__frame";
  frame.title = title;
  frame.src = address;
  frame.referrerPolicy = "no-referrer";
  frame.setAttribute("sandbox", "allow-scripts");
  let waiting = null;
  let number = 0;

  function answerTo(kind, limitMs) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new NotDrawn("")), limitMs);
      waiting?.reject(new NotDrawn(""));
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
    const asked = waiting;
    waiting = null;
    if (message.kind === "failed") asked.reject(new NotDrawn(String(message.reason ?? "")));
    else asked.resolve(message);
  }

  function listen(event) {
    // the viewer's page has an origin of its own, which is written "null"
    if (event.source !== frame.contentWindow || event.origin !== "null") return;
    const message = event.data ?? {};
    const isAnswer = message.kind === waiting?.kind || (waiting && message.kind === "failed");
    if (isAnswer && (message.number ?? 0) === number) settle(message);
    else if (["selected", "entered", "saved", "left"].includes(message.kind)) heard(message);
  }

  function say(message) {
    // no address names that origin; the policy of this page keeps all others out of the frame
    frame.contentWindow.postMessage(message, "*");
  }

  addEventListener("message", listen);
  const ready = answerTo("ready", READY_MS);
  ready.catch(() => {}); // whoever opens a file hears of it
  stage.replaceChildren(frame);

  return {
    ready,
    /** Draw a file; its name's end tells the format. Throws NotDrawn. */
    async open(file, name) {
      await ready;
      number += 1;
      const drawn = answerTo("drawn", DRAWN_MS);
      say({ kind: "open", number, file, name });
      return drawn;
    },
    select(node) {
      say({ kind: "select", node });
    },
    focus() {
      frame.focus();
    },
    remove() {
      removeEventListener("message", listen);
      waiting = null;
      frame.remove();
    },
  };
}

/**
 * GET `url` and return what `read` makes of the answer. Throws NotDrawn with the server's words if
 * it has any. Where the session has ended, the page is loaded anew, which leads to the login.
 */
export async function fetched(url, read) {
  const address = new URL(url, location.href);
  let response = null;
  try {
    response = await fetch(address, { headers: { Accept: "application/json" } });
    if (response.ok && !response.redirected) return await read(response);
  } catch {
    throw new NotDrawn("");
  }
  const isOver = response.redirected || response.status === 401;
  if (isOver && address.origin === location.origin) location.reload();
  throw new NotDrawn(await words(response));
}

async function words(response) {
  try {
    return (await response.json()).detail ?? "";
  } catch {
    return "";
  }
}
