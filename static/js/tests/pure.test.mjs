import assert from "node:assert/strict";
import test from "node:test";

import { bytesize, fill } from "../format.js";
import { waitMs } from "../socket.js";

test("sizes read like the server's", () => {
  assert.equal(bytesize(0), "0 B");
  assert.equal(bytesize(1023), "1023 B");
  assert.equal(bytesize(1536), "1.5 KiB");
  assert.equal(bytesize(5 * 1024 ** 3), "5.0 GiB");
});

test("a place without a value stays", () => {
  assert.equal(fill("{name} is {what}", { name: "{what}" }), "{what} is {what}");
});

test("waits for a reconnect lie between half a second and half a minute and grow", () => {
  assert.equal(waitMs(0, () => 0), 500);
  assert.equal(waitMs(0, () => 1), 1000);
  assert.equal(waitMs(3, () => 0), 4000);
  assert.equal(waitMs(1000, () => 1), 30_000);
});
