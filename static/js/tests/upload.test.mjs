import assert from "node:assert/strict";
import test from "node:test";

import { TransferRate, formatRemaining } from "../transfer/row.js";
import { PartsUpload, backoffMs } from "../transfer/upload_parts.js";

test("the backoff grows to half a minute, with jitter over its second half", () => {
  assert.deepEqual([0, 1, 2, 3].map((failures) => backoffMs(failures, () => 1)), [1_000, 2_000, 4_000, 8_000]);
  assert.equal(backoffMs(3, () => 0), 4_000);
  assert.equal(backoffMs(99, () => 1), 30_000);
});

test("the speed is averaged over the last seconds, and null before", () => {
  const rate = new TransferRate();
  assert.equal(rate.speed(), null);
  rate.addSample(0, 0);
  rate.addSample(10, 400);
  assert.equal(rate.speed(), null);
  rate.addSample(1_000, 1_000);
  assert.equal(rate.speed(), 1_000);
  for (let second = 2; second <= 30; second += 1) rate.addSample(1_000 + (second - 1) * 50, second * 1_000);
  assert.equal(rate.speed(), 50);
  rate.reset();
  assert.equal(rate.speed(), null);
});

test("a decrease of the bytes sent gives no speed", () => {
  const rate = new TransferRate();
  rate.addSample(1_000, 0);
  rate.addSample(500, 2_000);
  assert.equal(rate.speed(), null);
});

test("the remaining time has at most two units", () => {
  assert.deepEqual([0.2, 8.1, 59.5, 61, 3_590, 4_790].map(formatRemaining), [
    "1 s", "9 s", "60 s", "2 min", "1 h 0 min", "1 h 20 min",
  ]);
});

const OWN = "0".repeat(32);

/** Replace XMLHttpRequest and Worker: storage returns `etag(url)`. Returns the sizes of the Blobs that the page hashes. */
function page(t, etag) {
  const summed = [];
  const before = { window: globalThis.window, XMLHttpRequest: globalThis.XMLHttpRequest, Worker: globalThis.Worker };
  t.after(() => Object.assign(globalThis, before));
  globalThis.window = globalThis;
  globalThis.XMLHttpRequest = class extends EventTarget {
    upload = new EventTarget();
    status = 200;
    open(method, url) {
      this.url = url;
    }
    setRequestHeader() {}
    getResponseHeader() {
      return etag(this.url);
    }
    send() {
      queueMicrotask(() => this.dispatchEvent(new Event("load")));
    }
  };
  globalThis.Worker = class extends EventTarget {
    postMessage(blob) {
      summed.push(blob.size);
      queueMicrotask(() => this.dispatchEvent(new MessageEvent("message", { data: { md5: OWN } })));
    }
    terminate() {}
  };
  return summed;
}

const addressOf = (number) => ({ number, url: String(number), headers: {} });

/** Send 25 bytes in parts of 10; returns the checksums of the final request. Part numbers go to `requested`. */
async function joined(done, { known = [], requested = [] } = {}) {
  let sums = null;
  const server = {
    addresses: (upload, numbers) => {
      requested.push(...numbers);
      return Promise.resolve({ parts: numbers.map(addressOf) });
    },
    join: (md5s) => {
      sums = md5s;
      return Promise.resolve({});
    },
  };
  const parts = { upload: 1, part_bytes: 10, count: 3, done, addresses: known.map(addressOf) };
  await new PartsUpload(new Blob(["x".repeat(25)]), parts, { server, hasher: "", onChange() {} }).run();
  return sums;
}

const sumOf = (url) => url.repeat(32);

test("the MD5 from storage is used, and the part is not read again", async (t) => {
  const summed = page(t, (url) => `"${sumOf(url)}"`);
  assert.deepEqual(await joined({}), ["1", "2", "3"].map(sumOf));
  assert.deepEqual(summed, []);
});

test("addresses that came with the upload are not requested again", async (t) => {
  page(t, (url) => `"${sumOf(url)}"`);
  const requested = [];
  assert.deepEqual(await joined({}, { known: [1, 2], requested }), ["1", "2", "3"].map(sumOf));
  assert.deepEqual(requested, [3]);
  assert.deepEqual(await joined({}, { known: [1, 2, 3], requested }), ["1", "2", "3"].map(sumOf));
  assert.deepEqual(requested, [3]);
});

test("further addresses are requested while parts are being sent", async (t) => {
  let uploads = 0;
  page(t, (url) => {
    uploads += 1;
    return `"${"0".repeat(32 - url.length)}${url}"`;
  });
  const requests = [];
  const server = {
    addresses: async (upload, numbers) => {
      requests.push({ numbers, uploads });
      return { parts: numbers.map(addressOf) };
    },
    join: async () => ({}),
  };
  const addresses = [1, 2, 3, 4, 5, 6, 7, 8].map(addressOf);
  const parts = { upload: 1, part_bytes: 10, count: 12, done: {}, addresses };
  await new PartsUpload(new Blob(["x".repeat(120)]), parts, { server, hasher: "", onChange() {} }).run();
  assert.equal(uploads, 12);
  assert.deepEqual(requests.map(({ numbers }) => numbers), [[9, 10, 11, 12]]);
  // before the eight parts with known addresses have been sent
  assert.ok(requests[0].uploads < 8);
});

test("the page hashes a part if storage returns no MD5", async (t) => {
  const summed = page(t, (url) => ({ 1: null, 2: `"${sumOf("2")}"`, 3: `"${sumOf("3")}-1"` })[url]);
  assert.deepEqual(await joined({}), [OWN, sumOf("2"), OWN]);
  assert.deepEqual(summed.sort(), [10, 5]);
});

test("stored parts are hashed and must belong to this file", async (t) => {
  const summed = page(t, (url) => `"${sumOf(url)}"`);
  assert.deepEqual(await joined({ 2: OWN }), [sumOf("1"), OWN, sumOf("3")]);
  assert.deepEqual(summed, [10]);
  await assert.rejects(joined({ 2: sumOf("2") }), { kind: "other" });
});
