import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";

import { Md5, md5 } from "../md5.js";

const bytes = (text) => new TextEncoder().encode(text);
const expected = (data) => createHash("md5").update(data).digest("hex");

/** RFC 1321, appendix A.5. */
const RFC = {
  "": "d41d8cd98f00b204e9800998ecf8427e",
  a: "0cc175b9c0f1b6a831c399e269772661",
  abc: "900150983cd24fb0d6963f7d28e17f72",
  "message digest": "f96b697d7cb7938d525a2f31aaf161d0",
  abcdefghijklmnopqrstuvwxyz: "c3fcd3d76192e4007dfb496cca67e13b",
  ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789: "d174ab98d277d9f5a5611c2c9f419d9f",
  "12345678901234567890123456789012345678901234567890123456789012345678901234567890":
    "57edf4a22be3c955ac49da2e2107b67a",
};

test("the vectors of RFC 1321 come out", () => {
  for (const [text, sum] of Object.entries(RFC)) assert.equal(md5(bytes(text)), sum);
});

test("every length around the block's edges comes out", () => {
  for (let length = 0; length <= 200; length += 1) {
    const data = Uint8Array.from({ length }, (_, i) => (i * 7 + length) & 255);
    assert.equal(md5(data), expected(data), `length ${length}`);
  }
});

test("pieces of any size give the sum of the whole", () => {
  const data = Uint8Array.from({ length: 1000 }, (_, i) => (i * 31) & 255);
  for (const size of [1, 3, 63, 64, 65, 127, 999]) {
    const sum = new Md5();
    for (let at = 0; at < data.length; at += size) sum.update(data.subarray(at, at + size));
    assert.equal(sum.hex(), expected(data), `pieces of ${size}`);
  }
});

test("70 MB come out", (t) => {
  const data = new Uint8Array(70_000_000).map((_, i) => (i * 2654435761) >>> 24);
  const start = performance.now();
  const sum = md5(data);
  t.diagnostic(`${(70_000 / (performance.now() - start)).toFixed(0)} MB/s`);
  assert.equal(sum, expected(data));
});

test("a length over 2^32 bits is counted in two words", () => {
  // 513 MiB of zeros, fed from one piece
  const piece = new Uint8Array(27 * 1024 * 1024);
  const sum = new Md5();
  const reference = createHash("md5");
  for (let i = 0; i < 20; i += 1) {
    sum.update(piece);
    reference.update(piece);
  }
  assert.equal(sum.hex(), reference.digest("hex"));
});
