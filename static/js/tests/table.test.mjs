import assert from "node:assert/strict";
import test from "node:test";

import { niceStep } from "../charts/timeline_layout.js";
import { threeDigits } from "../format.js";
import { shapesText, shortName, withTypes } from "../profiles/operators.js";
import { moved } from "../profiles/table/chooser.js";
import { makeColumns, timeScale } from "../profiles/table/columns.js";
import { matcher, parseFilter } from "../profiles/table/filter.js";
import { asTsv, groupRows, runningShares, selectRows, sortRows } from "../profiles/table/model.js";
import { withUnknown } from "../profiles/table/state.js";

const NAMES = [
  "conv(layer1.0.relu,layer1.0.conv1.weight)[12]",
  "RELU(layer1.0.bn1)[13]",
  "const{16,3,3}[1]",
  "reduce(x)",
  "never ran",
];

function makeOperators(change = {}) {
  const side = (us) => ({ us, count: us.map(() => 2), cv: us.map(() => 0.01), passes: [us, us.map((value) => value && value * 2)] });
  return withTypes({
    side: "device",
    names: NAMES,
    ids: ["12", "13", "1", "20", "21"],
    types: [0, 1, 2, 1, 1],
    type_names: ["ConvolutionForward", "Elemwise", "ImmutableTensor"],
    constant_types: [2],
    device: side([12_000, 300, 1, 100, null]),
    host: side([20, 10, 2, 5, null]),
    scopes: { values: ["layer1.0.conv1", "layer1.0", ""], codes: [0, 1, 2, 2, 2] },
    computation: [24e9, 300, null, null, null],
    bytes: [1024, 2048, null, null, null],
    roof: [0.5, null, null, null, null],
    bound: [0, 2, -1, -1, -1],
    in_shapes: { values: ["[[1,3,96,96],[16,3,3,3]]", "[[]]"], codes: [0, 1, -1, -1, -1] },
    out_shapes: { values: ["[[1,16,94,94]]"], codes: [0, 0, -1, -1, -1] },
    dtypes: { values: ['["Float32"]'], codes: [0, 0, 0, 0, 0] },
    ...change,
  });
}

const operators = makeOperators();
const found = (text) => {
  const { rows } = selectRows(operators, { terms: parseFilter(text).terms, constants: true });
  return rows;
};

test("a filter finds words in names, types and scopes, and every term must match", () => {
  assert.deepEqual(found("conv"), [0]);
  assert.deepEqual(found("LAYER1 elemwise"), [1]);
  assert.deepEqual(found("type:elemwise -relu"), [3]);
  assert.deepEqual(found('name:"(layer1.0.bn1)"'), [1]);
  assert.deepEqual(found("scope:layer1.0.conv1"), [0]);
  assert.deepEqual(found("shape:1x3x96"), [0]);
  assert.deepEqual(found("shape:94"), [0, 1]);
  assert.deepEqual(found("dtype:float32 id:13"), [1]);
  assert.deepEqual(found("nothing"), []);
});

test("a filter limits the device time", () => {
  assert.deepEqual(found(">100us"), [0, 1]);
  assert.deepEqual(found(">=100us <1ms"), [1, 3]);
  assert.deepEqual(found("<0.05ms"), [2]);
  assert.deepEqual(found(">1"), [0, 1, 3]);
});

test("an unknown field is plain text, and hostile filters end", () => {
  const { terms, unknown } = parseFilter("colour:red");
  assert.deepEqual(unknown, ["colour"]);
  assert.equal(terms[0].wanted, "colour:red");
  for (const text of ['"', '"""', "-", "::", "type:", ">", `${"(".repeat(9_000)}`, "a:".repeat(5_000)]) {
    assert.ok(matcher(operators, parseFilter(text).terms)(0) !== undefined);
  }
});

test("a text with a colon is excluded by a minus", () => {
  const names = ["Foo::Bar(x)", "Foo::Baz(x)"];
  const others = matcher(makeOperators({ names }), parseFilter("-Foo::Bar").terms);
  assert.deepEqual([0, 1].filter(others), [1]);
});

test("constants and operators without times are left out", () => {
  assert.deepEqual(selectRows(operators, {}), { rows: [0, 1, 3], hidden: 1 });
  assert.deepEqual(selectRows(operators, { constants: true }).rows, [0, 1, 2, 3]);
  assert.deepEqual(selectRows(operators, { within: (row) => row === 3 }).rows, [3]);
  // what was asked for by name is not hidden
  assert.deepEqual(selectRows(operators, { only: new Set([1, 2]) }), { rows: [1, 2], hidden: 0 });
});

const columnOf = (key, change) => makeColumns(makeOperators(change), { compute: "compute", memory: "memory", latency: "latency" }).find((column) => column.key === key);

test("rows are sorted by numbers and texts; unknown numbers are last", () => {
  assert.deepEqual(sortRows([0, 1, 2, 3], columnOf("device"), false), [0, 1, 3, 2]);
  assert.deepEqual(sortRows([0, 1, 2, 3], columnOf("device"), true), [2, 3, 1, 0]);
  assert.deepEqual(sortRows([3, 1, 0], columnOf("flops"), true), [1, 0, 3]);
  assert.deepEqual(sortRows([3, 1, 0], columnOf("flops"), false), [0, 1, 3]);
  assert.deepEqual(sortRows([0, 1, 3], columnOf("type"), true), [0, 1, 3]);
});

test("ids are shown, found and sorted as in the file, also those that are no exact numbers", () => {
  const ids = ["9007199254740993", "9007199254740992", "1180591620717411303424", "9", "10"];
  const column = columnOf("id", { ids });
  assert.deepEqual([0, 1, 2].map(column.textOf), ids.slice(0, 3));
  assert.deepEqual(sortRows([0, 1, 2, 3, 4], column, true), [3, 4, 1, 0, 2]);
  assert.deepEqual(sortRows([0, 1, 2, 3, 4], column, false), [2, 0, 1, 4, 3]);
  const isWanted = matcher(makeOperators({ ids }), parseFilter("id:9007199254740993").terms);
  assert.deepEqual([0, 1].map(isWanted), [true, false]);
});

test("a column has one unit, three significant digits, and none below the clock's resolution", () => {
  const device = columnOf("device");
  assert.equal(device.unit, "ms");
  assert.deepEqual([0, 1, 2, 3, 4].map(device.textOf), ["12.0", "0.300", "0.001", "0.100", ""]);
  assert.deepEqual([0, 1].map(columnOf("host").textOf), ["20", "10"]);
  assert.deepEqual([1.2345, 0.0054, 123.4, 0, Number.NaN].map((value) => threeDigits(value, 3)), ["1.23", "0.005", "123", "0", ""]);
  assert.deepEqual(timeScale([2.4e6, null]).name, "s");
  const flops = columnOf("flops");
  assert.equal(flops.unit, "TFLOP/s");
  assert.equal(flops.textOf(0), "2.00");
  assert.deepEqual([0, 1, 2].map(columnOf("roof").textOf), ["50 compute", "latency", ""]);
  assert.equal(columnOf("n").textOf(0), "2");
});

test("columns without any value are left out", () => {
  const nothing = [null, null, null, null, null];
  assert.equal(columnOf("flops", { computation: nothing }), undefined);
  assert.equal(columnOf("roof", { roof: nothing }), undefined);
  assert.equal(columnOf("flops").key, "flops");
});

test("an operator is named by its scope and function", () => {
  assert.equal(shortName(operators, 0), "layer1.0.conv1 · conv");
  assert.equal(shortName(operators, 1), "layer1.0 · RELU");
  assert.equal(shortName(operators, 2), "const{16,3,3}[1]");
  assert.equal(shapesText("[[1,3,96,96],[16]]"), "1×3×96×96, 16");
  assert.equal(shapesText("[[]]"), "1");
  assert.equal(shapesText("null"), "");
  assert.equal(shapesText("{"), "{");
});

test("groups add up their operators, the slowest group first; closed ones hide their rows", () => {
  const rows = [0, 1, 3];
  const closed = groupRows(operators, rows, "type", new Set());
  assert.deepEqual(closed.map(({ group }) => [group.label, group.size, group.us, group.hostUs]), [
    ["ConvolutionForward", 1, 12_000, 20],
    ["Elemwise", 2, 400, 15],
  ]);
  const open = groupRows(operators, rows, "type", new Set(["Elemwise"]));
  assert.deepEqual(open.map(({ row, group }) => row ?? group.label), ["ConvolutionForward", "Elemwise", 1, 3]);
  const tree = groupRows(operators, rows, "scope", new Set(["layer1", "layer1\u00000"]));
  assert.deepEqual(tree.map(({ row, group, depth }) => [row ?? group.label, depth]), [["layer1", 0], ["0", 1], ["conv1", 2], [1, 2], [3, 0]]);
});

test("running shares count each operator once", () => {
  const shares = runningShares(operators, groupRows(operators, [0, 1, 3], "type", new Set(["Elemwise"])));
  assert.deepEqual([...shares].map((share) => Math.round(share * operators.total)), [12_000, 12_400, 12_400, 12_400]);
});

test("copied rows are tab-separated, whatever their names hold", () => {
  const odd = makeOperators({ names: ["a\tb\nc", ...NAMES.slice(1)], scopes: { values: [""], codes: [0, 0, 0, 0, 0] } });
  const columns = makeColumns(odd, {}).filter(({ key }) => key === "op" || key === "device");
  assert.equal(asTsv([0], columns, (column) => column.key), "op\tdevice\na b c\t12.0\n");
});

test("columns move by places and stay within", () => {
  assert.deepEqual(moved(["a", "b", "c"], "c", -1), ["a", "c", "b"]);
  assert.deepEqual(moved(["a", "b", "c"], "a", -1), ["a", "b", "c"]);
});

test("chosen columns that a result lacks keep their places", () => {
  const columns = ["op", "device", "type"].map((key) => ({ key }));
  const before = ["op", "diff", "passes", "device", "p90"];
  assert.deepEqual(withUnknown(["op", "device"], before, columns), before);
  assert.deepEqual(withUnknown(["device", "type", "op"], before, columns), ["device", "p90", "type", "op", "diff", "passes"]);
  // the column before them is no longer chosen
  assert.deepEqual(withUnknown(["op", "type"], before, columns), ["op", "diff", "passes", "p90", "type"]);
  assert.deepEqual(withUnknown(["op"], [], columns), ["op"]);
});

test("the steps of the axis are round", () => {
  assert.deepEqual([0.03, 7, 130].map(niceStep), [0.05, 10, 200]);
});

test("differences to the baseline have a sign and a column of their own, also before they arrive", () => {
  const compared = { ...operators, baseline: { us: [250, -1500, null, 0], clear: [false, true, false, false] } };
  const diff = makeColumns(compared, {}).find(({ key }) => key === "diff");
  assert.equal(diff.unit, "ms");
  assert.deepEqual([0, 1, 2, 3].map(diff.textOf), ["+0.250", "\u22121.50", "", "0"]);
  assert.deepEqual([0, 1].map(diff.verdictOf), [0, -1]);
  const waiting = makeColumns({ ...operators, baseline: { us: [], clear: [] } }, {}).find(({ key }) => key === "diff");
  assert.deepEqual([waiting.unit, waiting.textOf(0), waiting.textOfSum(0)], ["", "", ""]);
  assert.equal(makeColumns(operators, {}).some(({ key }) => key === "diff"), false);
});
