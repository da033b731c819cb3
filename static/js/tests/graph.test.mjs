import assert from "node:assert/strict";
import test from "node:test";

import { makeView, readAddress, writeAddress } from "../graph/view.js";

const VIEW = {
  place: "layer1",
  path: [["", ""], ["layer1", "layer1"]],
  nodes: [["[1] conv", 7, null], ["block layer1.0", null, "layer1.0"], ["[2] callback", null, null]],
  rows: [[3, "[1] conv"]],
  scale: { metric: "time", prefix: "heat", texts: ["0 s", "1 ms"] },
  operators: 90,
  shown: 30,
  left_out: 2,
  problems: [],
};

test("the node of a row is its operator; of a weight's row, the operator that reads it", () => {
  const view = makeView(VIEW);
  assert.equal(view.nodeOf(7), "[1] conv");
  assert.equal(view.nodeOf(3), "[1] conv");
  assert.equal(view.nodeOf(99), undefined);
  assert.equal(view.nodeOf(null), undefined);
});

test("a node has a row, a block that it opens, or neither", () => {
  const view = makeView(VIEW);
  assert.deepEqual(view.target("[1] conv"), { row: 7, place: null });
  assert.deepEqual(view.target("block layer1.0"), { row: null, place: "layer1.0" });
  assert.deepEqual(view.target("__proto__"), { row: null, place: null });
});

test("blocks are listed with the places that they open", () => {
  assert.deepEqual(makeView(VIEW).blocks, [["block layer1.0", "layer1.0"]]);
});

test("the URL contains the open part, and other parameters stay", () => {
  assert.deepEqual(readAddress(""), { isOpen: false, place: "", colour: "" });
  const address = writeAddress("http://site/tasks/1/result/?op=4&scope=old", { place: "a.b:0-9", colour: "" });
  assert.equal(address.search, "?op=4&scope=a.b%3A0-9&view=graph");
  assert.deepEqual(readAddress(address.search), { isOpen: true, place: "a.b:0-9", colour: "" });
  const whole = writeAddress(address.href, { place: "", colour: "host:time" });
  assert.equal(whole.search, "?op=4&view=graph&colour=host%3Atime");
});
