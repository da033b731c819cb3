import assert from "node:assert/strict";
import { test } from "node:test";

import { PartAddresses } from "../transfer/part_addresses.js";

const addressOf = (number) => ({ number, url: String(number), headers: {} });

/** Addresses of parts 1 to 4 are known, 5 and 6 remain; `respond` returns the server's response. */
function addresses(respond) {
  const requests = [];
  const remaining = [5, 6];
  const fetchAddresses = (numbers) => {
    requests.push(numbers);
    return respond(numbers);
  };
  const options = { fetchAddresses, remaining: () => remaining, ahead: 3 };
  return { requests, remaining, cache: new PartAddresses([1, 2, 3, 4].map(addressOf), options) };
}

test("more addresses are requested before they are needed, without waiting for them", async () => {
  const { requests, cache } = addresses(() => new Promise(() => {}));
  assert.equal((await cache.take(1)).url, "1");
  assert.deepEqual(requests, []);
  assert.equal((await cache.take(2)).url, "2");
  assert.equal((await cache.take(3)).url, "3");
  assert.deepEqual(requests, [[5, 6]]);
});

test("an address is used once, and requested again for a retry", async () => {
  const { requests, remaining, cache } = addresses((numbers) => Promise.resolve(numbers.map(addressOf)));
  remaining.length = 0;
  for (let tries = 0; tries < 2; tries += 1) assert.equal((await cache.take(4)).url, "4");
  assert.deepEqual(requests, [[4]]);
});

test("a failed request ahead of need is repeated when an address is needed", async () => {
  let fails = true;
  const { requests, remaining, cache } = addresses((numbers) =>
    fails ? Promise.reject(new Error("away")) : Promise.resolve(numbers.map(addressOf)),
  );
  for (const number of [1, 2, 3]) await cache.take(number);
  await new Promise((resolve) => setTimeout(resolve));
  remaining.shift();
  await assert.rejects(cache.take(5), { message: "away" });
  fails = false;
  assert.equal((await cache.take(5)).url, "5");
  assert.deepEqual(requests.at(-1), [5, 6]);
});

test("expired addresses are requested again", async () => {
  const { requests, cache } = addresses((numbers) => Promise.resolve(numbers.map(addressOf)));
  cache.clear();
  await cache.take(1);
  assert.deepEqual(requests, [[1, 5, 6]]);
});
