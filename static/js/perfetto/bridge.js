// The iframe's side of the trace viewer. Runs in Perfetto's page, before Perfetto's own scripts.
//
// The page has an opaque origin: no cookies, no storage. It receives the trace from the parent page.
// Messages in are Perfetto's own, "PING" and {perfetto: {buffer, title}}, {kind: "key", key}, which presses a
// letter, and {kind: "theme", isDark}. Messages out: "PONG", from
// Perfetto once it listens, then {kind: "drawn"} or {kind: "failed", reason}.

(() => {
  const parents = JSON.parse(document.currentScript.dataset.parents);
  const folder = new URL(".", location.href).href;
  const isInFolder = (address) => new URL(address, location.href).href.startsWith(folder);
  let peer = null;
  let isSettled = false;

  // -- replacements for what an opaque origin lacks ----------------------------------------------

  // Perfetto asks the user whether to trust the origin that sends a trace, unless it is in this list
  const entries = new Map([
    ["trustedOrigins", JSON.stringify(parents)],
    // the name of the frame is its first theme, `dark` or `light`
    ["perfettoSettings", JSON.stringify({ theme: window.name })],
  ]);
  const storage = {
    getItem: (key) => entries.get(String(key)) ?? null,
    setItem: (key, value) => void entries.set(String(key), String(value)),
    removeItem: (key) => void entries.delete(String(key)),
    clear: () => entries.clear(),
  };
  Object.defineProperty(window, "localStorage", { value: storage });
  // both exist but throw on every access; Perfetto works without them
  Object.defineProperty(window, "caches", { value: undefined });
  Reflect.deleteProperty(Navigator.prototype, "serviceWorker");

  // a worker's script must have the same origin, which only a blob URL has; the blob resolves relative
  // URLs against the real script, imports it, and then delivers the messages that arrived before
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

  // -- requests to other sites -------------------------------------------------------------------

  // the CSP blocks them anyway; here they fail without an error on the console
  const { fetch } = window;
  window.fetch = async (address, ...rest) => {
    if (!isInFolder(address instanceof Request ? address.url : address)) throw new TypeError("Failed to fetch");
    return fetch(address, ...rest);
  };
  const source = Object.getOwnPropertyDescriptor(HTMLScriptElement.prototype, "src");
  Object.defineProperty(HTMLScriptElement.prototype, "src", {
    ...source,
    set(address) {
      // without CORS, browsers hide the errors of scripts from another origin, which these are
      this.crossOrigin = "anonymous";
      if (isInFolder(address)) source.set.call(this, address);
      else setTimeout(() => this.dispatchEvent(new Event("error")));
    },
  });
  // the CSP that Perfetto adds does not work with an opaque origin, and allows more than the site's
  const rule = Object.getOwnPropertyDescriptor(HTMLMetaElement.prototype, "httpEquiv");
  Object.defineProperty(HTMLMetaElement.prototype, "httpEquiv", { ...rule, set() {} });

  // -- messages ----------------------------------------------------------------------------------

  addEventListener("message", (event) => {
    const isKnown = event.source === window.parent && parents.includes(event.origin);
    if (isKnown) peer = event.origin;
    if (isKnown && event.data?.kind === "key") press(String(event.data.key));
    if (isKnown && event.data?.kind === "theme") applyTheme(event.data.isDark ? "dark" : "light");
    // until the page is complete, Perfetto would only report an error
    if (!isKnown || document.readyState !== "complete") event.stopImmediatePropagation();
  }, true);

  /** Before Perfetto has started, the theme is one of its stored settings. */
  function applyTheme(theme) {
    entries.set("perfettoSettings", JSON.stringify({ theme }));
    window.app?.settings.get("theme")?.set(theme);
    window.raf?.scheduleFullRedraw();
  }

  /** Press a letter, as a user does whose focus is in this page. */
  function press(letter) {
    const key = { key: letter, code: `Key${letter.toUpperCase()}`, bubbles: true, cancelable: true };
    for (const kind of ["keydown", "keyup"]) document.body.dispatchEvent(new KeyboardEvent(kind, key));
  }

  function settle(message) {
    if (isSettled || peer === null) return;
    isSettled = true;
    window.parent.postMessage(message, peer);
  }

  // -- Perfetto's state --------------------------------------------------------------------------

  const expanded = new WeakSet();

  /** Open each process once: with two of them, Perfetto would show only a summary of each. */
  function expandProcesses() {
    for (const process of window.app.trace?.workspace?.children ?? []) {
      if (expanded.has(process)) continue;
      expanded.add(process);
      process.expand();
      window.raf.scheduleFullRedraw();
    }
  }

  function report() {
    const dialog = document.querySelector(".pf-modal-dialog");
    if (dialog !== null) settle({ kind: "failed", reason: dialog.textContent.slice(0, 500) });
    else if (document.title.endsWith(" - Perfetto UI") && !window.app.isLoadingTrace) {
      expandProcesses();
      // the second animation frame begins after the first has been painted
      requestAnimationFrame(() => requestAnimationFrame(() => settle({ kind: "drawn" })));
    }
  }

  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(report).observe(document.documentElement, { childList: true, subtree: true });
  });
})();
