// The dialog that lists the shortcuts of the page.

import { IS_MAC, areOff, isBound, shortcuts, turnOff } from "../shortcuts.js";

const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", Mod: IS_MAC ? "⌘" : "Ctrl" };

function keysOf(keys) {
  return keys.flatMap((key, place) => {
    // of "Mod+k" and "+"
    const parts = key.length > 1 ? key.split("+") : [key];
    const shown = parts.flatMap((part, number) => {
      const made = document.createElement("kbd");
      made.textContent = NAMES[part] ?? (part.length === 1 ? part.toUpperCase() : part);
      return number ? [" ", made] : [made];
    });
    return place ? [" / ", ...shown] : shown;
  });
}

export function showShortcuts() {
  let dialog = document.querySelector("#shortcut-list");
  if (!dialog) {
    dialog = document.querySelector("#shortcuts").content.querySelector("dialog").cloneNode(true);
    document.body.append(dialog);
    const box = dialog.querySelector("input");
    box.checked = !areOff();
    box.addEventListener("change", () => turnOff(!box.checked));
  }
  const bound = shortcuts().filter(({ name }) => isBound(name));
  const groups = new Set(bound.map(({ group }) => group));
  dialog.querySelector("[data-groups]").replaceChildren(...[...groups].flatMap((group) => {
    const title = document.createElement("h3");
    title.className = "card__subtitle";
    title.textContent = group;
    const list = document.createElement("dl");
    list.className = "facts";
    for (const { keys, text } of bound.filter((each) => each.group === group)) {
      const [term, meaning] = ["dt", "dd"].map((name) => document.createElement(name));
      term.append(...keysOf(keys));
      meaning.textContent = text;
      list.append(term, meaning);
    }
    return [title, list];
  }));
  dialog.showModal();
}
