// The legend of colours, and the way from all of the graph to the part that is shown.

/** One swatch for each class; texts are where each begins, and for heat the largest at the end. */
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

/** Breadcrumbs as links; `open(place)` is called for a click that stays on the page. */
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
