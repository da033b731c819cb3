import assert from "node:assert/strict";
import test from "node:test";

import { readNumber, toJson } from "../numbers.js";

test("what is typed is a number, or stays the text that the server can complain about", () => {
  assert.equal(readNumber("007"), 7);
  assert.equal(readNumber("-.5e1"), -5);
  for (const text of ["1e999", "-1e999", "1,5", "0x10", "Infinity", "NaN", "seven"]) {
    assert.equal(readNumber(text), text);
  }
});

test("whole numbers beyond 2**53 keep every digit on their way into JSON", () => {
  assert.equal(readNumber("9007199254740991"), 9007199254740991);
  for (const text of ["9007199254740993", "9223372036854775807", "-9007199254740993"]) {
    assert.equal(toJson({ options: { workspace_limit: readNumber(text) } }), `{"options":{"workspace_limit":${text}}}`);
  }
  assert.equal(toJson(readNumber("+9007199254740993")), "9007199254740993");
});

test("all else becomes the JSON that it always became", () => {
  const data = { a: [1, 2.5, null, undefined, [], {}], "b\"\n": "“x”\u2028", c: true, d: undefined, e: 1e-7, f: null };
  assert.equal(toJson(data), JSON.stringify(data));
});
