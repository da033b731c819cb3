import assert from "node:assert/strict";
import { test } from "node:test";

import { mended } from "../trace_viewer/mend.js";

const bytes = (text) => new TextEncoder().encode(text).buffer;
const text = (buffer) => new TextDecoder().decode(buffer);

test("a list that was cut ends after its last whole event", () => {
  const cut = '{"traceEvents": [{"name": "é", "args": {"a": 1}},\n{"name": "b", "args": {"x": {}}},\n{"na';
  assert.deepEqual(JSON.parse(text(mended(bytes(cut)))), {
    traceEvents: [
      { name: "é", args: { a: 1 } },
      { name: "b", args: { x: {} } },
    ],
  });
});

test("a bare list is closed as one", () => {
  assert.deepEqual(JSON.parse(text(mended(bytes('[{"name": "a"}, {"name": "b"')))), [{ name: "a" }]);
});

test("what has no event that is whole stays as it is", () => {
  const file = bytes('{"traceEvents": [{"na');
  assert.equal(mended(file), file);
});
