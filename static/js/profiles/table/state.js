// What the table shows is told by the address (`?q=...&sort=...`), and columns are kept in the browser.

const STORED = "operators.columns";
const NAMES = ["q", "sort", "group", "constants"];

/** Read `{q, sort, isAscending, group, constants}` from the address. */
export function readState() {
  const search = new URLSearchParams(location.search);
  const sort = search.get("sort") ?? "-device";
  return {
    q: search.get("q") ?? "",
    sort: sort.replace(/^[-+ ]/, ""),
    isAscending: !sort.startsWith("-"),
    group: search.get("group") ?? "",
    constants: search.get("constants") === "1",
  };
}

/** Write a state to the address, as a new entry of the history if `isNew`. */
export function writeState(state, isNew) {
  const address = new URL(location.href);
  const sort = `${state.isAscending ? "" : "-"}${state.sort}`;
  const values = [state.q, sort === "-device" ? "" : sort, state.group, state.constants ? "1" : ""];
  NAMES.forEach((name, place) => {
    if (values[place]) address.searchParams.set(name, values[place]);
    else address.searchParams.delete(name);
  });
  if (address.href === location.href) return;
  if (isNew) history.pushState(null, "", address);
  else history.replaceState(history.state, "", address);
}

/** The chosen columns in order and their widths, `{keys, widths}`; null for the usual ones. */
export function readColumns() {
  try {
    const { keys, widths } = JSON.parse(localStorage.getItem(STORED));
    return Array.isArray(keys) ? { keys, widths: widths ?? {} } : null;
  } catch {
    return null; // nothing is stored, or the browser permits no storage
  }
}

export function writeColumns(chosen) {
  try {
    if (chosen) localStorage.setItem(STORED, JSON.stringify(chosen));
    else localStorage.removeItem(STORED);
  } catch {
    // the choice then lasts until the page is closed
  }
}
