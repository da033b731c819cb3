// Keyboard shortcuts. The table of templates/_shortcuts.html names the keys of each shortcut and describes it;
// scripts bind what a shortcut does, and the dialog of "?" lists the shortcuts that are bound.

const STORED = "shortcuts.off";
const TYPED = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=file])";
export const IS_MAC = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "");
/** {name, run, target}: in the order of `bindShortcuts` */
const bindings = [];
let table = null;

/** The rows of the table: {name, group, keys, text}. */
export function shortcuts() {
  table ??= [...document.querySelector("#shortcuts").content.querySelectorAll("[data-shortcut]")].map((row) => ({
    name: row.dataset.shortcut,
    group: row.parentElement.title,
    keys: row.dataset.keys.split(" "),
    text: row.textContent,
  }));
  return table;
}

/**
 * Bind functions to shortcuts: {name: run}. `run(event)` returns false if it has nothing to do.
 *
 * target: an element; its shortcuts work while it has the focus or is under the pointer, those without
 *     a target everywhere on the page
 *
 * Returns a function that ends this.
 */
export function bindShortcuts(actions, target = null) {
  const bound = Object.entries(actions).map(([name, run]) => ({ name, run, target }));
  bindings.push(...bound);
  return () => {
    for (const binding of bound) bindings.splice(bindings.indexOf(binding), 1);
  };
}

/**
 * Bind the shortcuts of a timeline, as `bindShortcuts` does. `move(command)`: zooms `in` or `out`, pans `left` or
 * `right`, or shows the `whole`.
 */
export function bindTimeline(move, target = null) {
  const commands = { zoom_in: "in", zoom_out: "out", earlier: "left", later: "right", whole: "whole" };
  return bindShortcuts(Object.fromEntries(Object.entries(commands).map(([name, command]) => [name, () => move(command)])), target);
}

/** Whether a shortcut is bound to something in the page. */
export function isBound(name) {
  return bindings.some((binding) => binding.name === name && (binding.target?.isConnected ?? true));
}

/** Whether the user turned off shortcuts of a single character that work everywhere (WCAG 2.1.4). */
export function areOff() {
  try {
    return localStorage.getItem(STORED) !== null;
  } catch {
    return false; // the browser permits no storage
  }
}

export function turnOff(isOff) {
  try {
    if (isOff) localStorage.setItem(STORED, "1");
    else localStorage.removeItem(STORED);
  } catch {
    // the choice then has no effect
  }
}

/**
 * The key of an event as the table writes it: `w`, `?`, `Mod+k`, `Shift+ArrowLeft`. Mod is the command key
 * of a Mac, elsewhere Ctrl.
 */
export function keyOf({ key, code = "", ctrlKey = false, metaKey = false, shiftKey = false }, isMac = IS_MAC) {
  const letter = /^Key([A-Z])$/.exec(code)?.[1];
  // keyboards of other scripts, and input methods that are waiting, give no Latin letter
  const plain = letter && !/^[a-z]$/i.test(key) ? letter : key;
  const name = plain.length === 1 ? plain.toLowerCase() : plain;
  const isMod = isMac ? metaKey : ctrlKey;
  return `${isMod ? "Mod+" : ""}${shiftKey && name.length > 1 ? "Shift+" : ""}${name}`;
}

/** Whether a click follows a link in the same tab; with other buttons or modifier keys, browsers open a tab or download. */
export function isPlainClick({ button, ctrlKey, metaKey, shiftKey, altKey }) {
  return !button && !ctrlKey && !metaKey && !shiftKey && !altKey;
}

/**
 * Whether an input method gets a key that is pressed in a field. In Safari the key that ends a composition comes after
 * its end, and only its code tells.
 */
export const isForInputMethod = ({ isComposing, keyCode }) => isComposing || keyCode === 229;

function onKey(event) {
  const key = keyOf(event);
  const isCharacter = key.length === 1;
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  if (!key.startsWith("Mod+")) {
    if (event.ctrlKey || event.metaKey || event.target.closest?.(TYPED)) return;
    // Escape first closes what is open
    if (document.querySelector("dialog[open], :popover-open")) return;
  }
  const names = new Set(shortcuts().filter(({ keys }) => keys.includes(key)).map(({ name }) => name));
  const bound = bindings.filter(({ name, target }) => names.has(name) && (target?.isConnected ?? true));
  const isInside = ({ target }) => target?.contains(event.target);
  const runs = [
    ...bound.filter(isInside),
    ...(isCharacter && areOff() ? [] : [
      ...bound.filter((binding) => binding.target?.matches(":hover") && !isInside(binding)),
      ...bound.filter(({ target }) => target === null),
    ]),
  ];
  for (const { run } of runs) {
    if (run(event) !== false) {
      event.preventDefault();
      return;
    }
  }
}

/** Listen to keys, and bind the shortcuts of every page. */
export function startShortcuts() {
  document.addEventListener("keydown", onKey);
  bindShortcuts({
    next: () => moveInList(1),
    previous: () => moveInList(-1),
  });
  document.addEventListener("click", (event) => {
    const name = event.target.closest("[data-opens]")?.dataset.opens;
    if (name) bindings.find((binding) => binding.name === name)?.run(event);
  });
}

/** Move the focus to the link of the next row of the lists in the page, or to the grid of operators. */
function moveInList(step) {
  const grid = document.querySelector("[role=grid]");
  if (grid?.checkVisibility()) {
    grid.focus();
    return true;
  }
  const rows = [...document.querySelectorAll("table[data-list] > tbody > tr:has(a[href])")].filter((row) => row.checkVisibility());
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : now + step];
  if (!row) return rows.length > 0;
  row.querySelector("th a[href], a[href]")?.focus();
  return true;
}
