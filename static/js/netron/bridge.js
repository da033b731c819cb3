// The frame's side of the graph: runs in Netron's page, before Netron.
//
// The page has an opaque origin: no cookies, no storage. It gets files from the page around it and
// never fetches any. Messages in: {kind: "open", number, file, name} and {kind: "select", node}; out:
// {kind: "ready"}, {kind: "drawn" | "failed", number, ...} for the file opened last, and what the
// reader does: {kind: "selected" | "entered", node}, {kind: "saved", file, name}, {kind: "left"}.

(() => {
  const parents = JSON.parse(document.currentScript.dataset.parents);
  const MARK = "node-name-";
  let peer = null;
  let isReady = false;
  let opened = 0;
  let asked = null;

  // -- what an opaque origin lacks ---------------------------------------------------------------

  // Netron asks for consent where this cookie is missing; there are no cookies here at all
  Object.defineProperty(document, "cookie", { get: () => "consent=1", set: () => {} });

  // a worker's script must be of the same origin, which only a blob is; what is said to it before
  // the real script is there is kept
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

  // Netron adds a time stamp to what it fetches, so that nothing would ever come from the cache
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, address, ...rest) {
    const plain = new URL(address, location.href);
    plain.searchParams.delete("cb");
    open.call(this, method, plain.href, ...rest);
  };

  // -- messages ----------------------------------------------------------------------------------

  function tell(message) {
    if (peer !== null) window.parent.postMessage(message, peer);
    else for (const origin of parents) window.parent.postMessage(message, origin);
  }

  addEventListener("message", (event) => {
    if (event.source !== window.parent || !parents.includes(event.origin)) return;
    peer = event.origin;
    const { kind, number, file, name, node } = event.data ?? {};
    if (kind === "open" && file instanceof Blob) openFile(file, String(name), Number(number));
    if (kind === "select") select(node === null ? null : String(node));
  });

  /** As if the reader had dropped the file on the page. */
  function openFile(blob, name, number) {
    opened = number;
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
    asked = node;
    title.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    asked = null;
    // not scrollIntoView: it would scroll the page around the frame too
    const [at, room] = [box.getBoundingClientRect(), document.getElementById("target")];
    room.scrollBy(at.left + at.width / 2 - room.clientWidth / 2, at.top + at.height / 2 - room.clientHeight / 2);
  }

  function nodeAt(target) {
    const box = target instanceof Element ? target.closest(`[id^="${MARK}"]`) : null;
    return box === null ? null : box.id.slice(MARK.length);
  }

  addEventListener("click", (event) => {
    const node = nodeAt(event.target);
    if (node !== null && node !== asked) tell({ kind: "selected", node });
  }, true);
  addEventListener("dblclick", (event) => {
    const node = nodeAt(event.target);
    if (node !== null) tell({ kind: "entered", node });
  }, true);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") tell({ kind: "left" });
  });

  /** What of Netron's menu would leave the graph, or is forbidden to a page without an origin. */
  function leaveOut() {
    const { host } = window.__view__;
    const execute = host.execute.bind(host);
    host.execute = async (name) => (name === "about" ? execute(name) : undefined);
    host.export = async (name, file) => tell({ kind: "saved", file, name });
  }

  // -- what Netron shows: its state is the class of the body -------------------------------------

  function report() {
    const { classList } = document.body;
    if (classList.contains("spinner")) return;
    if (classList.contains("alert")) {
      tell({ kind: "failed", number: opened, reason: document.getElementById("message-text").textContent });
    } else if (classList.contains("default")) {
      // the second frame begins when the first has been painted
      const drawn = { kind: "drawn", number: opened };
      requestAnimationFrame(() => requestAnimationFrame(() => tell(drawn)));
    } else if (classList.contains("welcome") && !isReady) {
      isReady = true;
      leaveOut();
      tell({ kind: "ready" });
    }
  }

  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(report).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });
})();
