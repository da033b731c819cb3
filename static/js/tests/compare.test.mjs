import assert from "node:assert/strict";
import { test } from "node:test";

import { amountOf, heightOf, lowerEnd, unitOf } from "../profiles/compare/steps.js";

const slower = { kind: "step", from: 0.002, to: 0.003, delta: 0.001 };
const faster = { kind: "step", from: 0.003, to: 0.0025, delta: -0.0005 };
const total = { kind: "end", from: 0, to: 0.0025, delta: 0.0025 };

test("a bar reaches from the total before a step to that after it, up or down", () => {
  assert.equal(lowerEnd(slower), 0.002);
  assert.equal(lowerEnd(faster), 0.0025);
  assert.ok(Math.abs(heightOf(slower) - heightOf(faster) * 2) < 1e-12);
  assert.deepEqual([lowerEnd(total), heightOf(total)], [0, 0.0025]);
});

test("differences have a sign, totals have none, and all have one unit", () => {
  const unit = unitOf([slower, faster, total]);
  assert.equal(amountOf(slower, unit), "+1.00 ms");
  assert.equal(amountOf(faster, unit), "\u22120.500 ms");
  assert.equal(amountOf(total, unit), "2.50 ms");
  assert.equal(amountOf({ ...slower, delta: 0 }, unit), "0 ms");
});
