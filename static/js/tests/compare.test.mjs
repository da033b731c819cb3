import assert from "node:assert/strict";
import { test } from "node:test";

import { heightOf, lowerEnd, toneOf } from "../profiles/compare/steps.js";

const slower = { kind: "step", from: 0.002, to: 0.003, delta: 0.001, tone: "" };
const faster = { kind: "step", from: 0.003, to: 0.0025, delta: -0.0005, tone: "" };
const total = { kind: "end", from: 0, to: 0.0025, delta: 0.0025, tone: "" };

test("a bar reaches from the total before a step to that after it, up or down", () => {
  assert.equal(lowerEnd(slower), 0.002);
  assert.equal(lowerEnd(faster), 0.0025);
  assert.ok(Math.abs(heightOf(slower) - heightOf(faster) * 2) < 1e-12);
  assert.deepEqual([lowerEnd(total), heightOf(total)], [0, 0.0025]);
});

test("steps have two neutral tones, and colours only with a verdict", () => {
  assert.deepEqual([slower, faster, total].map(toneOf), ["more", "less", "total"]);
  assert.equal(toneOf({ ...slower, tone: "slower" }), "slower");
  assert.equal(toneOf({ ...faster, tone: "faster" }), "faster");
});
