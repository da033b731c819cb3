import assert from "node:assert/strict";
import test from "node:test";

import { curveOf, itemAt, itemsByRow } from "../static_memory/layout.js";

const DATA = { id: [4, 5, 6], from: [0, 2, 2], to: [2, 4, 3], low: [0, 0, 64], size: [64, 32, 64] };

test("a tensor is found by step and address, the one drawn last first", () => {
  assert.equal(itemAt(DATA, 1, 10), 0);
  assert.equal(itemAt(DATA, 2, 10), 1);
  assert.equal(itemAt(DATA, 2, 40), -1);
  assert.equal(itemAt(DATA, 2, 64), 2);
  assert.equal(itemAt(DATA, 3, 64), -1);
});

test("an operator's tensors are found by its row; tensors without a row are left out", () => {
  const byRow = itemsByRow([3, -1, 3]);
  assert.deepEqual(byRow.get(3), [0, 2]);
  assert.equal(byRow.has(-1), false);
});

test("the bytes in use stay constant until the next step, and until the end", () => {
  assert.deepEqual(curveOf([[0, 2], [64, 32]], 5), [[0, 64], [2, 32], [5, 32]]);
  assert.deepEqual(curveOf([[], []], 5), []);
});
