// The iframe's side of the graph viewer. Runs in Netron's page, before Netron's own scripts.
//
// The page has an opaque origin: no cookies, no storage. It receives files from the parent page and
// never fetches any. Messages in: {kind: "open", number, file, name, times}, {kind: "select", node} and
// {kind: "theme", isDark}; the name of the frame is its first theme, `dark` or `light`.
// Messages out: {kind: "ready"}; {kind: "drawn" | "failed", number, ...} for the file opened last; and
// the user's actions, {kind: "selected" | "entered", node}, {kind: "saved", file, name}, {kind: "left"}.

(() => {
  const parents = JSON.parse(document.currentScript.dataset.parents);
  const MARK = "node-name-";
  let peer = null;
  let isReady = false;
  let fileNumber = 0;
  /** The node that is being selected on request of the parent page, whose click is not reported back. */
  let requestedNode = null;

  // -- replacements for what an opaque origin lacks ----------------------------------------------

  // Netron asks for consent if this cookie is missing, and a page with an opaque origin has no cookies
  Object.defineProperty(document, "cookie", { get: () => "consent=1", set: () => {} });

  // a worker's script must have the same origin, which only a blob URL has; the blob imports the real
  // script and then delivers the messages that arrived before
  window.Worker = class extends Worker {
    constructor(address) {
      const script = JSON.stringify(new URL(address, location.href).href);
      const code = `
        const early = [];
        const keep = (event) => early.push(event.data);
        addEventListener("message", keep);
        import(${script}).then(() => {
          removeEventListener("message", keep);
          for (const data of early) dispatchEvent(new MessageEvent("message", { data }));
        });`;
      super(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    }
  };

  // Netron adds a timestamp to its requests, which would defeat the cache
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, address, ...rest) {
    const plain = new URL(address, location.href);
    plain.searchParams.delete("cb");
    open.call(this, method, plain.href, ...rest);
  };

  // Netron focuses the graph it has drawn, which would take the focus from the parent page and scroll it
  const { focus } = HTMLElement.prototype;
  HTMLElement.prototype.focus = function (options) {
    if (document.hasFocus()) focus.call(this, { ...options, preventScroll: true });
  };

  // -- messages ----------------------------------------------------------------------------------

  function post(message) {
    if (peer !== null) window.parent.postMessage(message, peer);
    else for (const origin of parents) window.parent.postMessage(message, origin);
  }

  addEventListener("message", (event) => {
    if (event.source !== window.parent || !parents.includes(event.origin)) return;
    peer = event.origin;
    const { kind, number, file, name, times, node, isDark } = event.data ?? {};
    if (kind === "theme") applyTheme(Boolean(isDark));
    if (kind === "open") [nodeTimes, matched] = [new Map(Object.entries(times ?? {})), 0];
    if (kind === "open" && file instanceof Blob) openFile(file, String(name), Number(number));
    if (kind === "select") select(node === null ? null : String(node));
  });

  /** [row of the table, time, colour class] of nodes of a model, by the names of their first outputs. */
  let nodeTimes = new Map();
  /** number of nodes that have a time */
  let matched = 0;
  // called by the reader of MegEngine's models (`profiles/viewer_packages.py`)
  globalThis.timeOfNode = (name) => {
    if (!nodeTimes.has(name)) return null;
    matched += 1;
    const [, text, category] = nodeTimes.get(name);
    return { text, category };
  };

  const themedRules = new Set();

  /** Apply the dark rules or not, whatever the theme of the system is. */
  function applyTheme(isDark) {
    for (const { cssRules } of document.styleSheets) {
      for (const rule of cssRules) {
        if (rule instanceof CSSMediaRule && rule.media.mediaText === "(prefers-color-scheme: dark)") themedRules.add(rule);
      }
    }
    for (const rule of themedRules) rule.media.mediaText = isDark ? "all" : "not all";
  }

  /** Open a file by a simulated drop on the page. */
  function openFile(blob, name, number) {
    fileNumber = number;
    const transfer = new DataTransfer();
    transfer.items.add(new File([blob], name));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }

  function boxOf(node) {
    return document.getElementById(MARK + node);
  }

  /** Mark a node and show its panel, as a click on its title does. */
  function select(node) {
    const box = node === null ? null : boxOf(node);
    if (box === null) return;
    const title = box.querySelector(".node-item-type");
    requestedNode = node;
    title.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    requestedNode = null;
    // not scrollIntoView, which would also scroll the parent page
    const [rect, view] = [box.getBoundingClientRect(), document.getElementById("target")];
    view.scrollBy(rect.left + rect.width / 2 - view.clientWidth / 2, rect.top + rect.height / 2 - view.clientHeight / 2);
  }

  function nodeAt(target) {
    const box = target instanceof Element ? target.closest(`[id^="${MARK}"]`) : null;
    return box === null ? null : box.id.slice(MARK.length);
  }

  addEventListener("click", (event) => {
    const node = nodeAt(event.target);
    if (node !== null && node !== requestedNode) post({ kind: "selected", node });
  }, true);
  addEventListener("dblclick", (event) => {
    const node = nodeAt(event.target);
    if (node !== null) post({ kind: "entered", node });
  }, true);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") post({ kind: "left" });
  });

  /** Disable the commands of Netron's menu that would leave the graph, and replace the export, which an opaque origin cannot do. */
  function restrictMenu() {
    const { host } = window.__view__;
    const execute = host.execute.bind(host);
    host.execute = async (name) => (name === "about" ? execute(name) : undefined);
    host.export = async (name, file) => post({ kind: "saved", file, name });
  }

  // -- Netron's state, which is a class of the body ----------------------------------------------

  function report() {
    const { classList } = document.body;
    if (classList.contains("spinner")) return;
    if (classList.contains("alert")) {
      post({ kind: "failed", number: fileNumber, reason: document.getElementById("message-text").textContent });
    } else if (classList.contains("default")) {
      // the second animation frame begins after the first has been painted
      const drawn = { kind: "drawn", number: fileNumber, matched };
      requestAnimationFrame(() => requestAnimationFrame(() => post(drawn)));
    } else if (classList.contains("welcome") && !isReady) {
      isReady = true;
      restrictMenu();
      post({ kind: "ready" });
    }
  }

  addEventListener("load", () => applyTheme(window.name === "dark"));
  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(report).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });
})();
