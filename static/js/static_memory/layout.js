// Layout of a static memory plan: the tensor at a position, and the curve of the bytes in use. No canvas.

/** The item at a step and an address, the one drawn last if there are several; -1 for none. */
export function itemAt(data, step, address) {
  for (let item = data.id.length - 1; item >= 0; item -= 1) {
    const inTime = data.from[item] <= step && step < data.to[item];
    if (inTime && data.low[item] <= address && address < data.low[item] + data.size[item]) return item;
  }
  return -1;
}

/** A Map from the row of each operator to the items that it writes. */
export function itemsByRow(rows) {
  const byRow = new Map();
  rows.forEach((row, item) => {
    if (row < 0) return;
    if (byRow.has(row)) byRow.get(row).push(item);
    else byRow.set(row, [item]);
  });
  return byRow;
}

/** The bytes in use as points of a step line: each value lasts until the next step, the last one until `end`. */
export function curveOf([steps, bytes], end) {
  return steps.length ? [...steps.map((step, at) => [step, bytes[at]]), [end, bytes.at(-1)]] : [];
}
