import assert from "node:assert/strict";
import test from "node:test";

import { inspectData, inspectModel, inspectProgram, readModel, readNpy } from "../tasks/new/file_heads.js";

const bytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));

/** An .npy file as numpy writes it, with this header and `dataBytes` bytes of data. */
function npy(header, dataBytes, { version = "\x01\x00" } = {}) {
  const length = String.fromCharCode(header.length % 256, Math.floor(header.length / 256));
  const text = `\x93NUMPY${version}${length}${version[0] === "\x01" ? "" : "\0\0"}${header}`;
  return [bytes(text), text.length + dataBytes];
}

const header = (shape, { descr = "'<f4'", fortran = "False" } = {}) =>
  `{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': ${shape}, }          \n`;

test("dtype and shape of an array are read from its header", () => {
  assert.deepEqual(readNpy(...npy(header("(2, 3)"), 24)), {
    arrays: [{ name: "", dtype: "float32", shape: [2, 3] }],
    isFortran: false,
  });
  assert.deepEqual(readNpy(...npy(header("(5,)", { descr: "'|b1'" }), 5, { version: "\x03\x00" })).arrays, [
    { name: "", dtype: "bool", shape: [5] },
  ]);
});

test("Fortran order is detected", () => {
  assert.equal(readNpy(...npy(header("(2, 3)", { fortran: "True" }), 24)).isFortran, true);
  // with one axis, both orders are the same
  assert.equal(readNpy(...npy(header("(6,)", { fortran: "True" }), 24)).isFortran, false);
});

test("an array that cannot be an input is rejected", () => {
  const code = (...args) => readNpy(...args).code;
  assert.equal(code(...npy(header("(2,)", { descr: "'|O'" }), 8)), "input_pickled");
  assert.equal(code(...npy(header("(2,)", { descr: "[('a', '<f4')]" }), 8)), "input_structured");
  assert.equal(code(...npy(header("(2,)", { descr: "'<U7'" }), 56)), "input_not_numbers");
  assert.deepEqual(readNpy(...npy(header("(2,)", { descr: "'<f8'" }), 16)), {
    code: "input_no_type",
    dtype: "float64",
    instead: "float32",
  });
  assert.equal(code(...npy(header("()"), 4)), "input_no_axes");
  assert.equal(code(...npy(header("(0, 3)"), 0)), "input_no_numbers");
  assert.deepEqual(readNpy(...npy(header("(2, 3)"), 20)), {
    code: "input_cut_short",
    promise: "float32 {2,3}",
    wanted: String(npy(header("(2, 3)"), 24)[1]),
    size: npy(header("(2, 3)"), 20)[1],
  });
  assert.equal(readNpy(...npy(header("(2, 3)"), 25)).extra, "1");
  // a size that a double cannot represent exactly
  assert.equal(code(...npy(header("(9007199254740993, 3)"), 9)), "input_cut_short");
  for (const descr of ["()", "'T'", "True"]) assert.equal(code(...npy(header("(2,)", { descr }), 8)), "input_header");
  assert.equal(code(...npy("{'shape': (-1,)}", 4)), "input_header");
  assert.equal(code(bytes("\x93NUMPY\x01\x00\xff"), 9), "input_header");
});

test("dtypes that only the Python package reads are rejected for a compiled load_and_run", () => {
  const [head, size] = npy(header("(2,)", { descr: "'<i8'" }), 16);
  assert.equal(readNpy(head, size, "wheel").code, undefined);
  assert.equal(readNpy(head, size, "binary").code, "input_dtype_not_here");
});

test("other file types are detected by their first bytes", async () => {
  const inspect = (name, content) => inspectData(new File([content], name), "wheel");
  assert.equal((await inspect("x.npy", "hello")).code, "input_not_npy");
  assert.equal((await inspect("x.npz", bytes("PK\x03\x04 ..."))).code, "input_zip");
  assert.equal((await inspect("x.npy", bytes("\x80\x04 ..."))).code, "input_pickled");
  assert.deepEqual((await inspect("x.ppm", bytes(`P6\n4 3\n255\n${"\0".repeat(36)}`))).arrays[0].shape, [1, 3, 4, 3]);
  assert.equal((await inspect("x.pgm", "P2 1 1 255 7")).code, "input_picture");
  assert.deepEqual((await inspect("x.json", '{"a": {"shape": [1, 2], "type": "int", "raw": [1, 2]}}')).arrays, [
    { name: "a", dtype: "int32", shape: [1, 2] },
  ]);
  assert.equal((await inspect("x.json", '{"a": {"shape": [3], "type": "int", "raw": [1, 2]}}')).code, "input_json_numbers");
});

// webprofile/tests/test_scripts.py compares the answers with the server's
test("a model is detected by its first bytes", async () => {
  const inspect = async (content) => (await inspectModel(new File([content], "x.mge"))).code;
  assert.equal(await inspect(bytes("\x0c\0\0\0\0\0\0\0mgv2aaaa")), undefined);
  assert.deepEqual(readModel(bytes("\xff\0\0\0\0\0\0\0mgv2aaaa"), 16), { code: "model_cut_short", size: 16, wanted: 259 });
  for (const start of ["mgb0001", "packed_model"]) assert.equal(await inspect(start.padEnd(16)), undefined);
  assert.equal(await inspect(bytes(`MGBC${"\0".repeat(20)}\x02\0\0\0gr`)), undefined);
  assert.equal(await inspect("import megengine"), "model_is_text");
  assert.equal(await inspect(bytes("\x89PNG\r\n")), "model_is_picture");
});

test("a program is detected by its first bytes", async () => {
  const inspect = async (name, content) => (await inspectProgram(new File([content], name))).code;
  assert.equal(await inspect("a.py", "print('数据')"), undefined);
  assert.equal(await inspect("a.py", bytes("# coding: latin-1\nx = '\xe9'")), undefined);
  assert.equal(await inspect("a.py", bytes("\xe9\xff")), "script_not_text");
  assert.equal(await inspect("a.py", "mgb0001"), "script_is_model");
  assert.equal(await inspect("a.py", bytes("PK\x03\x04")), "script_is_zip");
  assert.equal(await inspect("a.zip", bytes("PK\x03\x04")), undefined);
  assert.equal(await inspect("a.zip", "print()"), "script_not_zip");
});
