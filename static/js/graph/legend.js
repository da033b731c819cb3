// The legend of colours, and the breadcrumbs from the whole graph to the visible part.

import { isPlainClick } from "../shortcuts.js";

/**
 * Show one swatch for each colour class; classes with the same text share one entry. If all have the same, nothing is
 * coloured, and the list stays empty.
 * texts: the lower bound of each class; for heat also the maximum, last.
 */
export function showLegend(list, { prefix, texts }) {
  const entries = new Map();
  const classes = prefix === "heat" ? texts.slice(0, -1) : texts;
  for (const [number, text] of classes.entries()) {
    const isHottest = prefix === "heat" && number === classes.length - 1;
    const label = isHottest && text !== texts.at(-1) ? `${text} – ${texts.at(-1)}` : text;
    if (!entries.has(label)) {
      const item = document.createElement("li");
      item.className = "graph__class";
      item.append(label);
      entries.set(label, item);
    }
    const swatch = document.createElement("span");
    swatch.className = "graph__swatch";
    swatch.style.background = `var(--${prefix}-${number})`;
    entries.get(label).lastChild.before(swatch);
  }
  list.replaceChildren(...(entries.size > 1 ? entries.values() : []));
}

/** Show the breadcrumbs as links; `open(place)` is called for clicks without a modifier key. */
export function showPath(list, { path, whole, address }, open) {
  list.replaceChildren(
    ...path.map(([place, name], depth) => {
      const item = document.createElement("li");
      item.className = "graph__crumb hostile";
      const text = depth === 0 ? whole : name;
      if (depth === path.length - 1) {
        item.setAttribute("aria-current", "location");
        item.textContent = text;
        return item;
      }
      const link = document.createElement("a");
      link.href = address(place);
      link.textContent = text;
      link.addEventListener("click", (event) => {
        if (!isPlainClick(event)) return;
        event.preventDefault();
        open(place);
      });
      item.append(link);
      return item;
    }),
  );
}
