// One view of the graph: the rows and blocks that its nodes represent, and its state in the page's URL. No DOM.

/** Index `view`, a part of the server's document (`profiles/analysis/netron/document.py`). */
export function makeView(view) {
  const nodes = new Map(view.nodes.map(([name, row, place]) => [name, { row, place }]));
  const nodeByRow = new Map(view.rows);
  for (const [name, row] of view.nodes) if (row !== null) nodeByRow.set(row, name);
  return {
    place: view.place,
    path: view.path,
    scale: view.scale,
    operators: view.operators,
    shown: view.shown,
    nodes: nodes.size,
    leftOut: view.left_out,
    problems: view.problems,
    /** [name of the node, place that it opens] of each block. */
    blocks: view.nodes.filter(([, , place]) => place !== null).map(([name, , place]) => [name, place]),
    /** The name of the node for a row of the table; undefined if this view has none. */
    nodeOf: (row) => nodeByRow.get(row),
    /** {row, place} of a node: its row of the table, or the place that a block opens. */
    target: (name) => nodes.get(name) ?? { row: null, place: null },
  };
}

/** Read the view from the page's URL: whether the graph is open, which part of it, and its colours. */
export function readAddress(search) {
  const parameters = new URLSearchParams(search);
  return {
    isOpen: parameters.get("view") === "graph" || parameters.has("scope"),
    place: parameters.get("scope") ?? "",
    colour: parameters.get("colour") ?? "",
  };
}

/** The URL `href` with another view. */
export function writeAddress(href, { place, colour }) {
  const address = new URL(href);
  const set = (name, value) =>
    value ? address.searchParams.set(name, value) : address.searchParams.delete(name);
  address.searchParams.set("view", "graph");
  set("scope", place);
  set("colour", colour);
  return address;
}
