// The theme of the page: what the user chose, otherwise that of the system. It can change while the page is open.

const system = globalThis.matchMedia?.("(prefers-color-scheme: dark)");

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : system.matches;
}

/** Call `listener` when the page becomes light or dark; returns a function that ends this. */
export function onTheme(listener) {
  const chosen = new MutationObserver(listener);
  chosen.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  system.addEventListener("change", listener);
  return () => {
    chosen.disconnect();
    system.removeEventListener("change", listener);
  };
}
