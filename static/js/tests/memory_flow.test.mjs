import assert from "node:assert/strict";
import test from "node:test";

import { bytesAxis } from "../charts/palette.js";
import { FlowChart } from "../memory_flow/chart.js";

const DATA = {
  end: 100,
  used: 3_000_000,
  peak: { at: 80, bytes: 2_000_000 },
  curve: [[0, 5], [80, 2_000_000], [100, 0]],
  regions: [[0, "0x10"], [1_000_000, "0x7f00"]],
  names: ["", "conv\u202e:0"],
  start: [0, 60],
  length: [100, 30],
  place: [0, 1_000_000],
  size: [1024, 2_000_000],
  shape: ["256 Float32", "1 × 2 Float32"],
  address: ["0x10", "0x7f00"],
  at_peak: [1, 0],
};
const WORDS = {
  unnamed: "before", tensor: "{size}, {shape}", life: "{start} to {end}, {time} long", place: "at {address}",
  alive: "alive", peak: "peak {size}", held: "in use", since: "since",
};

function drawing(actions = []) {
  const chart = { off() {}, on() {}, dispatchAction: (action) => actions.push(action) };
  const tools = { querySelectorAll: () => [] };
  return new FlowChart({ data: DATA, words: WORDS, chart, echarts: null, parts: { tools } });
}

test("an axis of bytes ends above the maximum, with ticks at powers of two", () => {
  const range = (most) => (({ min, interval, max }) => ({ min, interval, max }))(bytesAxis({}, most));
  assert.deepEqual(range(3_000_000), { min: 0, interval: 1_048_576, max: 3_145_728 });
  assert.deepEqual(range(0), { min: 0, interval: 1, max: 1 });
});

test("a tensor is described by name, size, lifetime and address", () => {
  const flow = drawing();
  assert.equal(flow.length, 2);
  assert.deepEqual(flow.describe(0), [
    "before", "1.0 KiB, 256 Float32", "0 µs to 100 µs, 100 µs long", "at 0x10", "alive",
  ]);
  assert.equal(flow.describe(1)[0], "conv\ufffd:0");
  assert.equal(flow.describe(1).length, 4);
});

test("gaps between address regions are marked, and the peak is marked in both parts", () => {
  const [curve, tensors] = drawing().option({}).series;
  assert.deepEqual(curve.markLine.data, [{ xAxis: 80 }]);
  assert.equal(curve.markLine.label.align, "right");
  assert.deepEqual(tensors.markLine.data.map(({ xAxis, yAxis }) => xAxis ?? yAxis), [80, 1_000_000]);
  assert.deepEqual(tensors.data, [[0, 100, 0, 1024], [60, 90, 1_000_000, 3_000_000]]);
});

test("commands zoom, and a hidden tensor is brought into view", () => {
  const actions = [];
  const flow = drawing(actions);
  flow.runCommand("in");
  assert.deepEqual(flow.view, [25, 75]);
  flow.show(1);
  assert.deepEqual(flow.view, [50, 100]);
  flow.runCommand("whole");
  assert.deepEqual(flow.view, [0, 100]);
  assert.equal(actions.length, 3);
});
