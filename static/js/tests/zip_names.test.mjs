import assert from "node:assert/strict";
import test from "node:test";

import { entryOf, namesOf, programsOf } from "../tasks/new/zip_names.js";

/** A zip with only the central directory and its end record, which are all that is read. */
function zip(names, { comment = "", flags = 0x800 } = {}) {
  const parts = names.map((name) => {
    const bytes = new TextEncoder().encode(name);
    const head = new DataView(new ArrayBuffer(46));
    head.setUint32(0, 0x02014b50, true);
    head.setUint16(8, flags, true);
    head.setUint16(28, bytes.length, true);
    head.setUint16(30, 3, true);
    return new Blob([head, bytes, "abc"]);
  });
  const list = new Blob(parts);
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint32(12, list.size, true);
  end.setUint16(20, comment.length, true);
  return new Blob(["the files themselves", list, end, comment]);
}

test("the names in a zip are read from its end, even if a comment follows", async () => {
  assert.deepEqual(await namesOf(zip(["a/", "a/main.py", "数据.csv"])), ["a/", "a/main.py", "数据.csv"]);
  assert.deepEqual(await namesOf(zip(["b.py"], { comment: "x".repeat(60_000) })), ["b.py"]);
  assert.deepEqual(await namesOf(zip([])), []);
});

test("an unreadable zip has no names", async () => {
  const whole = zip(["main.py"]);
  assert.equal(await namesOf(new Blob([])), null);
  assert.equal(await namesOf(new Blob(["PK no zip at all, but long enough for an end"])), null);
  assert.equal(await namesOf(whole.slice(0, whole.size - 10)), null);
  assert.equal(await namesOf(whole.slice(30)), null);
  assert.equal(await namesOf(zip(["数.py"], { flags: 0 })), null);
});

test("the entry point is the only program, or the outermost main", () => {
  assert.equal(entryOf(["a/deep/one.py", "a/readme.txt", "__MACOSX/a/deep/._one.py"]), "a/deep/one.py");
  assert.equal(entryOf(["a/main.py", "a/lib/main.py", "a/net.py"]), "a/main.py");
  assert.equal(entryOf(["app/__main__.py", "app/net.py"]), "app/__main__.py");
  assert.equal(entryOf(["main.py", "__main__.py"]), "");
  assert.equal(entryOf(["domain.py", "net.py"]), "");
  assert.equal(entryOf([]), "");
  assert.deepEqual(programsOf(["x.PYC", "b.py", "__MACOSX/b.py"]), ["b.py"]);
});
