// The frame's side of a trace: runs in Perfetto's page, before Perfetto.
//
// The page has an opaque origin: no cookies, no storage. It gets the trace from the page around it.
// Messages in are Perfetto's own: "PING" and {perfetto: {buffer, title}}; out: "PONG", Perfetto's
// answer once it listens, then {kind: "drawn"} or {kind: "failed", reason}.

(() => {
  const parents = JSON.parse(document.currentScript.dataset.parents);
  const folder = new URL(".", location.href).href;
  const isOurs = (address) => new URL(address, location.href).href.startsWith(folder);
  let peer = null;
  let isSettled = false;

  // -- what an opaque origin lacks ---------------------------------------------------------------

  // Perfetto asks the reader whether it may trust a page that hands it a trace, unless it is here
  const kept = new Map([["trustedOrigins", JSON.stringify(parents)]]);
  const storage = {
    getItem: (key) => kept.get(String(key)) ?? null,
    setItem: (key, value) => void kept.set(String(key), String(value)),
    removeItem: (key) => void kept.delete(String(key)),
    clear: () => kept.clear(),
  };
  Object.defineProperty(window, "localStorage", { value: storage });
  // both are there and throw whatever is asked of them; Perfetto can do without
  Object.defineProperty(window, "caches", { value: undefined });
  Reflect.deleteProperty(Navigator.prototype, "serviceWorker");

  // a worker's script must be of the same origin, which only a blob is; addresses in it stay those
  // of the folder, and what is said to it before the real script is there is kept
  window.Worker = class extends Worker {
    constructor(address) {
      const script = JSON.stringify(new URL(address, location.href).href);
      const code = `
        const { fetch } = self;
        const { open } = XMLHttpRequest.prototype;
        self.fetch = (address, ...rest) => fetch(new URL(address, ${script}), ...rest);
        XMLHttpRequest.prototype.open = function (method, address, ...rest) {
          open.call(this, method, new URL(address, ${script}), ...rest);
        };
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

  // -- what it would ask others for --------------------------------------------------------------

  // the policy forbids it anyway; here it fails without an error on the console
  const { fetch } = window;
  window.fetch = async (address, ...rest) => {
    if (!isOurs(address instanceof Request ? address.url : address)) throw new TypeError("Failed to fetch");
    return fetch(address, ...rest);
  };
  const source = Object.getOwnPropertyDescriptor(HTMLScriptElement.prototype, "src");
  Object.defineProperty(HTMLScriptElement.prototype, "src", {
    ...source,
    set(address) {
      // errors of another origin's script are hidden, and the scripts have another one
      this.crossOrigin = "anonymous";
      if (isOurs(address)) source.set.call(this, address);
      else setTimeout(() => this.dispatchEvent(new Event("error")));
    },
  });
  // a policy that Perfetto adds knows no page without an origin, and allows more than the site's
  const rule = Object.getOwnPropertyDescriptor(HTMLMetaElement.prototype, "httpEquiv");
  Object.defineProperty(HTMLMetaElement.prototype, "httpEquiv", { ...rule, set() {} });

  // -- messages ----------------------------------------------------------------------------------

  addEventListener("message", (event) => {
    const isKnown = event.source === window.parent && parents.includes(event.origin);
    if (isKnown) peer = event.origin;
    // before that Perfetto only complains
    if (!isKnown || document.readyState !== "complete") event.stopImmediatePropagation();
  }, true);

  function settle(message) {
    if (isSettled || peer === null) return;
    isSettled = true;
    window.parent.postMessage(message, peer);
  }

  // -- what Perfetto shows -----------------------------------------------------------------------

  function report() {
    const dialog = document.querySelector(".pf-modal-dialog");
    if (dialog !== null) settle({ kind: "failed", reason: dialog.textContent.slice(0, 500) });
    else if (document.title.endsWith(" - Perfetto UI")) {
      // the second frame begins when the first has been painted
      requestAnimationFrame(() => requestAnimationFrame(() => settle({ kind: "drawn" })));
    }
  }

  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(report).observe(document.documentElement, { childList: true, subtree: true });
  });
})();
