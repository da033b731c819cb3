// The legend of colours, and the breadcrumbs from the whole graph to the visible part.

/** Show one swatch for each colour class. texts: the lower bound of each class; for heat also the maximum, last. */
export function showLegend(list, { prefix, texts }) {
  const classes = prefix === "heat" ? texts.slice(0, -1) : texts;
  list.replaceChildren(
    ...classes.map((text, number) => {
      const item = document.createElement("li");
      item.className = "graph__class";
      const swatch = document.createElement("span");
      swatch.className = `graph__swatch graph__swatch--${prefix}${number}`;
      const label = document.createElement("span");
      label.textContent = prefix === "heat" && number === classes.length - 1 ? `${text} – ${texts.at(-1)}` : text;
      item.append(swatch, label);
      return item;
    }),
  );
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
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        open(place);
      });
      item.append(link);
      return item;
    }),
  );
}
