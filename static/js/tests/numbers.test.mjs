import assert from "node:assert/strict";
import test from "node:test";

import { readNumber, toJson } from "../numbers.js";

test("text is parsed as a number, or stays text that the server rejects with a message", () => {
  assert.equal(readNumber("007"), 7);
  assert.equal(readNumber("-.5e1"), -5);
  for (const text of ["1e999", "-1e999", "1,5", "0x10", "Infinity", "NaN", "seven"]) {
    assert.equal(readNumber(text), text);
  }
});

test("integers above 2**53 keep every digit in JSON", () => {
  assert.equal(readNumber("9007199254740991"), 9007199254740991);
  for (const text of ["9007199254740993", "9223372036854775807", "-9007199254740993"]) {
    assert.equal(toJson({ options: { workspace_limit: readNumber(text) } }), `{"options":{"workspace_limit":${text}}}`);
  }
  assert.equal(toJson(readNumber("+9007199254740993")), "9007199254740993");
});

test("all other data has the JSON of JSON.stringify", () => {
  const data = { a: [1, 2.5, null, undefined, [], {}], "b\"\n": "“x”\u2028", c: true, d: undefined, e: 1e-7, f: null };
  assert.equal(toJson(data), JSON.stringify(data));
});
