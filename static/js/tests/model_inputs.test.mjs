import assert from "node:assert/strict";
import test from "node:test";

import { candidatesFor, compareInput, literalDtype, literalShape, parseShape, readInputs } from "../tasks/new/model_inputs.js";

const INPUTS = [
  { name: "mask", dtype: "float32", shape: [2, 1, 32, 32] },
  { name: "data", dtype: "float32", shape: [2, 3, 32, 32] },
];

const codeOf = (given, batch) => compareInput({ dtype: "", shape: null, ...given }, INPUTS, batch)?.code ?? "";

test("a name, a type and a shape are compared with the model's", () => {
  assert.equal(codeOf({ name: "data" }), "");
  assert.equal(codeOf({ name: "data", dtype: "float32", shape: [2, 3, 32, 32] }), "");
  assert.equal(codeOf({ name: "image" }), "no_such_input");
  assert.equal(compareInput({ name: "x", dtype: "", shape: null }, []).code, "no_inputs");
  assert.equal(codeOf({ name: "data", dtype: "int32" }), "other_dtype");
  assert.equal(codeOf({ name: "data", dtype: "int32", isLiteral: true }), "integers_for_float");
  assert.equal(codeOf({ name: "data", shape: [4, 3, 32, 32] }), "other_shape");
  assert.equal(codeOf({ name: "data", shape: [2, 3, 32] }), "other_shape");
});

test("a batch size sets the first axis, whatever is given", () => {
  assert.equal(codeOf({ name: "data", shape: [1, 3, 32, 32] }, 8), "");
  assert.equal(codeOf({ name: "data", shape: [1, 3, 16, 16] }, 8), "other_shape");
});

test("a type that no file can hold is not compared", () => {
  const quantized = [{ name: "data", dtype: "QuantizedS8", shape: [1] }];
  assert.equal(compareInput({ name: "data", dtype: "int8", shape: [1] }, quantized), null);
});

test("inputs that match are offered first", () => {
  assert.deepEqual(candidatesFor({ dtype: "float32", shape: [2, 3, 32, 32] }, INPUTS).map(({ name }) => name), ["data", "mask"]);
  assert.deepEqual(candidatesFor({ dtype: "", shape: null }, INPUTS).map(({ name }) => name), ["mask", "data"]);
});

test("type and shape of typed numbers are those that load_and_run gives them", () => {
  assert.deepEqual(["5", "1,2.5", "[[1,2],[3,4]]"].map(literalDtype), ["int32", "float32", "int32"]);
  assert.deepEqual(["5", "1,2,3", "[1,2,3]", "[[1,2],[3,4]]", "x", "["].map(literalShape), [[1], [3], [1, 3], [1, 2, 2], null, null]);
  assert.deepEqual(["1,3,8", "{1,3}", " 2 x 3 ", "", "1,,2", "a"].map(parseShape), [[1, 3, 8], [1, 3], [2, 3], null, null, null]);
});

/** A model whose table of operators is a vector of `length`, with nothing behind it. */
function modelWithOperators(length) {
  const view = new DataView(new ArrayBuffer(64));
  // size, root, identifier; the table of fields at 12, the model at 24, the vector at 32
  view.setUint32(4, 20, true);
  new Uint8Array(view.buffer).set([..."mgv2"].map((letter) => letter.charCodeAt(0)), 8);
  view.setUint16(12, 10, true);
  view.setUint16(20, 4, true);
  view.setInt32(24, 12, true);
  view.setUint32(28, 4, true);
  view.setUint32(32, length, true);
  return new Uint8Array(view.buffer);
}

const readFrom = (bytes, size = bytes.length) => readInputs((begin, end) => bytes.slice(begin, end), size);

test("a model without operators has no inputs", () => {
  assert.deepEqual(readFrom(modelWithOperators(0)), { inputs: [] });
});

test("the inputs of a packed model are left to the device", () => {
  const packed = new TextEncoder().encode("packed_model".padEnd(32, "\0"));
  assert.deepEqual(readFrom(packed), { isOtherFormat: true });
});

test("lengths and positions beyond the file are no endless work", () => {
  assert.deepEqual(readFrom(modelWithOperators(0xffffffff)), { isUnreadable: true });
  assert.deepEqual(readFrom(modelWithOperators(8)), { isUnreadable: true });
  // the file became shorter while it was read
  assert.deepEqual(readFrom(modelWithOperators(0), 100_000), { isUnreadable: true });
});

test("at most 256 MiB of a file are read", () => {
  let bytes = 0;
  const model = modelWithOperators(2 ** 30);
  const read = (begin, end) => {
    bytes += end - begin;
    const page = new Uint8Array(end - begin);
    if (begin < model.length) page.set(model.slice(begin, end));
    // every operator is at another place
    else for (let i = 0; i < page.length; i += 4) new DataView(page.buffer).setUint32(i, 2 ** 31 + 5000 * i, true);
    return page;
  };
  assert.deepEqual(readInputs(read, 2 ** 40), { isUnreadable: true });
  assert.ok(bytes <= 2 ** 28);
});
