// What one view of the graph shows: which node stands for which row, and what it opens. No DOM.

/** `view` is that of the server's document, see `profiles/analysis/drawing/document.py`. */
export function makeView(view) {
  const nodes = new Map(view.nodes.map(([name, row, place]) => [name, { row, place }]));
  const ofRow = new Map(view.rows);
  for (const [name, row] of view.nodes) if (row !== null) ofRow.set(row, name);
  return {
    place: view.place,
    path: view.path,
    scale: view.scale,
    operators: view.operators,
    shown: view.shown,
    nodes: nodes.size,
    leftOut: view.left_out,
    problems: view.problems,
    /** [name of the node, address that it opens] of each block */
    blocks: view.nodes.filter(([, , place]) => place !== null).map(([name, , place]) => [name, place]),
    /** The name of the node that shows a row of the table, undefined if none of this view does. */
    nodeOf: (row) => ofRow.get(row),
    /** {row, place} of a node: a row of the table, or the address that a block opens. */
    target: (name) => nodes.get(name) ?? { row: null, place: null },
  };
}

/** The view that the address asks for: whether the graph is open, and which part of it. */
export function readAddress(search) {
  const parameters = new URLSearchParams(search);
  return {
    isOpen: parameters.get("view") === "graph" || parameters.has("scope"),
    place: parameters.get("scope") ?? "",
    colour: parameters.get("colour") ?? "",
  };
}

/** The same address with another view. */
export function writeAddress(href, { place, colour }) {
  const address = new URL(href);
  const set = (name, value) =>
    value ? address.searchParams.set(name, value) : address.searchParams.delete(name);
  address.searchParams.set("view", "graph");
  set("scope", place);
  set("colour", colour);
  return address;
}
