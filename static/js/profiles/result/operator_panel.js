// What is known of the selected operator, beside the tables.

import { onSelect, select, selected } from "./selection.js";

/**
 * Keep `panel` at the selected operator; `data-url` ends where the operator's row follows. Its place
 * beside the tables is always there, so that a selection moves nothing.
 */
export function startPanel(panel, { fetchFragment, announce }) {
  const facts = panel.querySelector("#operator-facts");
  let latest = null;
  function show(row) {
    latest = row;
    panel.toggleAttribute("data-empty", row === null);
    if (row === null) {
      panel.removeAttribute("aria-busy");
      facts.replaceChildren();
      return;
    }
    load(row);
  }

  async function load(row) {
    // not in `show`: fading the panel would delay the frame in which the row is marked
    panel.setAttribute("aria-busy", "true");
    try {
      const fragment = await fetchFragment(`${panel.dataset.url}${row}/?part=1`);
      if (latest !== row) return;
      facts.replaceChildren(fragment);
      panel.scrollTop = 0;
      announce(panel.querySelector("[data-announce]")?.dataset.announce ?? "");
    } catch (error) {
      if (latest !== row) return;
      const note = document.createElement("p");
      note.className = "card__note";
      note.textContent = error.status === 404 ? panel.dataset.unknown : panel.dataset.failed;
      facts.replaceChildren(note);
    } finally {
      if (latest === row) panel.removeAttribute("aria-busy");
    }
  }

  onSelect(show);
  panel.addEventListener("click", (event) => {
    if (!event.target.closest("[data-clear]")) return;
    event.preventDefault();
    select(null, "panel");
    document.querySelector("#operator-table [role=grid]")?.focus();
  });
  const isThere = panel.querySelector("[data-operator]")?.dataset.operator;
  if (selected() !== null && isThere !== String(selected())) show(selected());
}
