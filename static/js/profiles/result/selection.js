// The one selected operator of a page: told by the address (`?op=ROW`), heard by every view.
//
// An operator is named by its row in the profile's columns, a number that all views share. Views
// call `select` and listen with `onSelect`; none of them knows another.

const PARAMETER = "op";
const listeners = new Set();
let current = readAddress();
let writing = 0;

function readAddress() {
  const text = new URLSearchParams(location.search).get(PARAMETER) ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** The selected operator's row, null without one. */
export function selected() {
  return current;
}

/** Call `listener(row, source)` at each change; `source` names the view that made it. */
export function onSelect(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Select an operator everywhere, or none (`null`). The address holds it without a new entry. */
export function select(row, source = "") {
  if (row === current) return;
  current = row;
  tell(source);
  // up to 20 ms in Chromium, which views need not wait for
  clearTimeout(writing);
  writing = setTimeout(writeAddress);
}

function writeAddress() {
  const address = new URL(location.href);
  if (current === null) address.searchParams.delete(PARAMETER);
  else address.searchParams.set(PARAMETER, String(current));
  history.replaceState(history.state, "", address);
}

function tell(source) {
  for (const listener of listeners) listener(current, source);
}

addEventListener("popstate", () => {
  const row = readAddress();
  if (row === current) return;
  current = row;
  tell("address");
});
