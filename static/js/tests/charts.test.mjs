import assert from "node:assert/strict";
import test from "node:test";

import { cumulativeChart, downsample } from "../charts/cumulative.js";
import { nextItem } from "../charts/keys.js";
import { withTypes } from "../profiles/operators.js";
import { hexOf, inkOn } from "../charts/palette.js";
import { decades, diameter, labelShifts, ceilingLines } from "../charts/roofline_layout.js";
import { rooflineChart } from "../charts/roofline.js";
import { depthFor, leavesOf, scopeRows, toNodes } from "../charts/scopes.js";
import { axisMicro, clean } from "../charts/text.js";
import { barsByRow, coveredTime, firstsOf, panned, showing, toFetch, within, zoomed } from "../charts/timeline_layout.js";
import { barsOf } from "../charts/types.js";
import { percent, scaled, seconds, timeUnit } from "../format.js";

test("times, speeds and shares are formatted as on the server", () => {
  assert.equal(seconds(0.0123456), "12.3 ms");
  assert.equal(seconds(5e-6), "5 µs");
  // ties are rounded up, 999.7 µs are not 1000 µs, and the clock resolves 1 µs
  assert.deepEqual([2.5e-6, 9.997e-4, 0.0099996, 3e-7, 0.001105, 1105 / 1e6].map((time) => seconds(time)), ["3 µs", "1.00 ms", "10.0 ms", "< 1 µs", "1.11 ms", "1.11 ms"]);
  assert.equal(seconds(0), "0 s");
  assert.equal(seconds(null), "–");
  assert.equal(scaled(72_983_272_727, "FLOP/s"), "73 GFLOP/s");
  assert.equal(scaled(0.25, "FLOP/byte"), "0.25 FLOP/byte");
  assert.deepEqual([0, 0.0001, 0.004, 0.8, 1].map(percent), ["0 %", "< 0.1 %", "0.4 %", "80 %", "100 %"]);
});

test("times side by side have one unit", () => {
  const times = [0.0123456, 5e-6, 0, 9.4e-4];
  const unit = timeUnit(times);
  assert.deepEqual(times.map((time) => seconds(time, unit)), ["12.3 ms", "0.005 ms", "0 ms", "0.940 ms"]);
  assert.deepEqual([0, 3000, 1500, 120].map(axisMicro(3000)), ["0 ms", "3 ms", "1.5 ms", "0.12 ms"]);
  assert.deepEqual([12320, 12330, 12340].map(axisMicro(12340, 10)), ["12.32 ms", "12.33 ms", "12.34 ms"]);
});

test("a name on a canvas keeps its letters, and invisible and bidirectional characters are replaced", () => {
  assert.equal(clean("conv\n<b>\u202eevil"), "conv\ufffd<b>\ufffdevil");
  assert.equal(clean("👩‍💻 卷积"), "👩‍💻 卷积");
  assert.equal(clean("x".repeat(500)).length, 120);
});

test("keys move through the items and stop at both ends", () => {
  assert.equal(nextItem("ArrowRight", -1, 3), 0);
  assert.equal(nextItem("ArrowLeft", -1, 3), 2);
  assert.equal(nextItem("ArrowRight", 2, 3), 2);
  assert.equal(nextItem("PageUp", 4, 30), 0);
  assert.equal(nextItem("End", 0, 30), 29);
  assert.equal(nextItem("x", 0, 30), null);
  assert.equal(nextItem("Home", 0, 0), null);
});

test("an operator is found in all its bars, including merged ones", () => {
  const counts = [1, 3, 1];
  const rows = [7, 7, 8, 7, 9];
  assert.deepEqual([...firstsOf(counts)], [0, 1, 4]);
  const bars = barsByRow(counts, rows);
  assert.deepEqual(bars.get(7), [0, 1]);
  assert.deepEqual(bars.get(9), [2]);
});

test("a window of time stays inside and keeps its size", () => {
  assert.deepEqual(within([-5, 5], 100), [0, 10]);
  assert.deepEqual(within([95, 105], 100), [90, 100]);
  assert.deepEqual(within([-500, 500], 100), [0, 100]);
  assert.deepEqual(panned([10, 20], 0.5, 100), [15, 25]);
  assert.deepEqual(zoomed([0, 100], 0.5, 100), [25, 75]);
  assert.deepEqual(zoomed([0, 100], 0.5, 100, 10), [0, 50]);
  assert.deepEqual(zoomed([0, 100], 0.5, 100, 500), [25, 75]);
  const [low, high] = zoomed([50, 50], 0.5, 100);
  assert.ok(high > low);
});

test("a hidden bar is moved to the middle of the window; a visible one does not move it", () => {
  assert.deepEqual(showing([0, 10], [2, 3], 100), [0, 10]);
  assert.deepEqual(showing([0, 10], [49, 51], 100), [45, 55]);
  assert.deepEqual(showing([0, 1], [40, 60], 100), [38, 62]);
});

test("finer bars are fetched for merged bars, and the first bars are used again for large views", () => {
  const whole = { range: [0, 100], merged: true, span: 100, wholeMerged: true };
  assert.equal(toFetch([0, 100], whole), null);
  assert.equal(toFetch([0, 60], whole), null);
  assert.deepEqual(toFetch([50, 60], whole), [45, 65]);
  const part = { ...whole, range: [45, 65], merged: false };
  assert.equal(toFetch([46, 47], part), null);
  assert.deepEqual(toFetch([60, 70], part), [55, 75]);
  assert.equal(toFetch([0, 90], part), "whole");
  const small = { range: [0, 100], merged: false, span: 100, wholeMerged: false };
  assert.equal(toFetch([1, 2], small), null);
});

test("types are ranked by their time, without invalid times", () => {
  const operators = withTypes({ names: ["a", "b", "c", "d"], types: [0, 1, 1, -1], type_names: ["X", "Y"], side: "device", device: { us: [5, 4, 4, null] } });
  assert.equal(operators.total, 13);
  assert.deepEqual(operators.order, [1, 0]);
  assert.deepEqual([0, 1, 3].map(operators.rankOf), [1, 0, -1]);
  assert.equal(operators.typeOf(3), "");
});

test("many types become a bar for each of the largest and one for the others", () => {
  const data = { types: [3, 1, 2, 0], us: [9, 5, 2, 1], operators: [1, 1, 4, 2] };
  assert.deepEqual(barsOf(data, 2).at(-1), { codes: [2, 0], us: 3, operators: 6 });
  assert.equal(barsOf(data, 3).length, 4);
  assert.deepEqual(barsOf({ types: [], us: [], operators: [] }), []);
});

test("axes of the roofline end at powers of ten, even for one value or none", () => {
  assert.deepEqual(decades([0.03, 42]), [0.01, 100]);
  assert.deepEqual(decades([10]), [10, 100]);
  assert.deepEqual(decades([0, NaN, Infinity]), [1, 10]);
});

test("each compute line starts where it meets the memory line", () => {
  const lines = ceilingLines({ roofs: [{ name: "Int8", flops: 400 }, { name: "Float32", flops: 100 }], bytes_s: 10 }, [1, 1000]);
  assert.deepEqual(lines[0].points, [[1, 10], [40, 400]]);
  assert.deepEqual(lines[1].points, [[40, 400], [1000, 400]]);
  assert.deepEqual(lines[2].points, [[10, 100], [1000, 100]]);
  assert.deepEqual(ceilingLines({ roofs: [{ name: "", flops: 0 }], bytes_s: 0 }, [1, 10]), []);
});

test("the labels of the roofline have the units of the device page", () => {
  const data = { rows: [], intensity: [], flops: [], us: [], roofs: [{ name: "Float32", flops: 72.98e9 }], bytes_s: 14.13e9, measured: true };
  const chart = { getWidth: () => 900, getHeight: () => 420 };
  const { series } = rooflineChart({ data, operators: {}, words: { copy_roof: "copy" }, chart }).option({});
  assert.deepEqual(series.map(({ endLabel }) => endLabel.formatter), ["copy 14.1 GB/s", "Float32 73 GFLOP/s"]);
});

test("the roofline draws 100,000 operators of one type", () => {
  const rows = Array.from({ length: 100_000 }, (_, row) => row);
  const ones = rows.map(() => 1);
  const data = { rows, intensity: ones, flops: ones, us: ones, roofs: [{ name: "", flops: 1 }], bytes_s: 1, measured: false };
  const operators = { rankOf: () => 0, typeName: () => "X", order: [0] };
  // takes minutes if each operator copies the list of its group
  assert.equal(rooflineChart({ data, operators, words: {}, chart: {} }).length, 100_000);
});

test("labels of compute lines do not overlap", () => {
  assert.deepEqual(labelShifts([]), []);
  assert.deepEqual(labelShifts([20, 60]), [0, 0]);
  for (const tops of [[20, 26], [26, 20], [20, 25, 30], [20, 20, 60]]) {
    const labels = labelShifts(tops).map((shift, line) => tops[line] + shift).sort((a, b) => a - b);
    labels.slice(1).forEach((top, place) => assert.ok(top - labels[place] >= 16, String(labels)));
  }
});

test("the area of a point is proportional to its time", () => {
  assert.equal(diameter(100, 100) / diameter(25, 100), 2);
  assert.equal(diameter(0, 0), 7);
});

const TREE = [
  { n: "a", c: [{ n: "b", c: [{ r: [1], t: 4 }, { r: [2, 3], t: 1 }] }, { r: [4], t: 2 }] },
  { r: [5], t: 9 },
];

/** Operator 1 is of type 0, the others of type 1; all have different times. */
const NODES = {
  nameOf: (row) => `op${row}`,
  moreName: (n) => `${n} more`,
  typeOf: (row) => (row === 1 ? 0 : 1),
  timeOf: (row) => [0, 4, 0.4, 0.6, 2, 9][row],
  colourOf: (type) => ["#111111", "#eeeeee"][type],
};

test("a scope of the treemap has the colour of the type with the most time in it", () => {
  const [scope, leaf] = toNodes(TREE, NODES);
  const colours = (node) => [node.itemStyle.color, node.label.color];
  assert.deepEqual(colours(scope), ["#111111", "#ffffff"]);
  assert.deepEqual(colours(scope.children[0]), ["#111111", "#ffffff"]);
  assert.deepEqual(scope.children[0].children.map(colours), [["#111111", "#ffffff"], ["#eeeeee", "#000000"]]);
  assert.deepEqual(colours(leaf), ["#eeeeee", "#000000"]);
  const later = toNodes([{ n: "a", c: [{ r: [1], t: 4 }, { n: "b", c: [{ r: [5], t: 9 }] }] }], NODES);
  assert.deepEqual(colours(later[0]), ["#eeeeee", "#000000"]);
});

test("the treemap's areas add up, and its leaves are operators", () => {
  const nodes = toNodes(TREE, NODES);
  assert.equal(nodes[0].value, 7);
  assert.equal(nodes[0].children[0].children[1].name, "2 more");
  assert.deepEqual(leavesOf(nodes).map(({ rows }) => rows), [[5], [1], [2, 3], [4]]);
  assert.deepEqual(scopeRows(TREE).map(({ scope, time, number }) => [scope, time, number]), [["", 16, 5], ["a", 7, 4], ["a.b", 5, 3]]);
});

test("a treemap with too many nodes shows the upper levels first", () => {
  const leaf = {};
  const nodes = [{ children: [{ children: [leaf, leaf, leaf] }, leaf] }, leaf];
  assert.equal(depthFor(nodes, 100), 3);
  assert.equal(depthFor(nodes, 5), 2);
  assert.equal(depthFor(nodes, 1), 1);
  assert.equal(depthFor([]), 1);
});

test("a curve has at most two points per pixel, including the last one", () => {
  assert.deepEqual(downsample(4, 100), [0, 1, 2, 3]);
  const points = downsample(10_000, 500);
  assert.ok(points.length <= 1_002);
  assert.equal(points.at(-1), 9_999);
  assert.deepEqual(downsample(0, 100), []);
});

test("the cumulative curve of a total of zero has nothing to draw", () => {
  const operators = withTypes({ names: ["a"], types: [0], type_names: ["X"], side: "device", device: { us: [0] } });
  const data = { rows: [0], us: [0], share: [0], milestones: [] };
  assert.equal(cumulativeChart({ data, operators, words: {}, chart: {} }).length, 0);
});

test("a label has enough contrast on every colour of the palette", () => {
  assert.equal(inkOn("#0072b2"), "#ffffff");
  assert.equal(inkOn("#e69f00"), "#000000");
  assert.equal(inkOn("#56b4e9"), "#000000");
});

test("a computed colour is converted to the palette's format", () => {
  assert.equal(hexOf("rgb(13, 92, 99)"), "#0d5c63");
});

test("the time in which any of several devices is busy counts once", () => {
  assert.equal(coveredTime([[5, 9], [0, 4], [2, 6], [5, 6]]), 9);
  assert.equal(coveredTime([[0, 4], [6, 10]]), 8);
  assert.equal(coveredTime([]), 0);
});
