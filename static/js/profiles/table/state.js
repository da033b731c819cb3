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

/** The choice of columns: `keys`, the chosen ones in order, or null for the usual ones; and `widths` by key. */
export function readColumns() {
  try {
    const { keys, widths } = JSON.parse(localStorage.getItem(STORED));
    return { keys: Array.isArray(keys) ? keys : null, widths: widths ?? {} };
  } catch {
    return { keys: null, widths: {} }; // nothing is stored, or the browser permits no storage
  }
}

/**
 * The chosen keys with those of `before` that are not among `columns`: other results have such columns. Each
 * follows the one that it followed.
 */
export function withUnknown(keys, before, columns) {
  const all = [...keys];
  before.forEach((key, place) => {
    if (columns.some((column) => column.key === key)) return;
    const previous = before.slice(0, place).findLast((each) => all.includes(each));
    all.splice(all.indexOf(previous) + 1, 0, key);
  });
  return all;
}

export function writeColumns(choice) {
  try {
    localStorage.setItem(STORED, JSON.stringify(choice));
  } catch {
    // the choice then lasts until the page is closed
  }
}
