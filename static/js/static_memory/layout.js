// A memory plan without a canvas: which tensor lies where, and what is in use.

/** The item at a step and an address, -1 for none, of several the one drawn last; `data` is the server's. */
export function itemAt(data, step, address) {
  for (let item = data.id.length - 1; item >= 0; item -= 1) {
    const inTime = data.from[item] <= step && step < data.to[item];
    if (inTime && data.low[item] <= address && address < data.low[item] + data.size[item]) return item;
  }
  return -1;
}

/** The items that an operator writes, by its row in the table of operators. */
export function itemsByRow(rows) {
  const found = new Map();
  rows.forEach((row, item) => {
    if (row < 0) return;
    if (found.has(row)) found.get(row).push(item);
    else found.set(row, [item]);
  });
  return found;
}

/** What is in use, as the corners of steps that each last until the next one. */
export function curveOf([steps, bytes], end) {
  return steps.length ? [...steps.map((step, at) => [step, bytes[at]]), [end, bytes.at(-1)]] : [];
}
