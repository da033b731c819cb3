import assert from "node:assert/strict";
import { test } from "node:test";

import { PartAddresses } from "../transfer/part_addresses.js";

const addressOf = (number) => ({ number, url: String(number), headers: {} });

/** Addresses of parts 1 to 4 are known, 5 and 6 wait; `answer` is what becomes of a question. */
function addresses(answer) {
  const asked = [];
  const left = [5, 6];
  const ask = (numbers) => {
    asked.push(numbers);
    return answer(numbers);
  };
  return { asked, left, known: new PartAddresses([1, 2, 3, 4].map(addressOf), { ask, left: () => left, ahead: 3 }) };
}

test("more are asked for before they are needed, and nobody waits for them", async () => {
  const { asked, known } = addresses(() => new Promise(() => {}));
  assert.equal((await known.take(1)).url, "1");
  assert.deepEqual(asked, []);
  assert.equal((await known.take(2)).url, "2");
  assert.equal((await known.take(3)).url, "3");
  assert.deepEqual(asked, [[5, 6]]);
});

test("an address is used once, and asked for again for another try", async () => {
  const { asked, left, known } = addresses((numbers) => Promise.resolve(numbers.map(addressOf)));
  left.length = 0;
  for (let tries = 0; tries < 2; tries += 1) assert.equal((await known.take(4)).url, "4");
  assert.deepEqual(asked, [[4]]);
});

test("a question ahead of need that fails is asked again by who needs its answer", async () => {
  let fails = true;
  const { asked, left, known } = addresses((numbers) =>
    fails ? Promise.reject(new Error("away")) : Promise.resolve(numbers.map(addressOf)),
  );
  for (const number of [1, 2, 3]) await known.take(number);
  await new Promise((resolve) => setTimeout(resolve));
  left.shift();
  await assert.rejects(known.take(5), { message: "away" });
  fails = false;
  assert.equal((await known.take(5)).url, "5");
  assert.deepEqual(asked.at(-1), [5, 6]);
});

test("addresses that ran out are asked for anew", async () => {
  const { asked, known } = addresses((numbers) => Promise.resolve(numbers.map(addressOf)));
  known.forget();
  await known.take(1);
  assert.deepEqual(asked, [[1, 5, 6]]);
});
