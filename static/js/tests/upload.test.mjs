import assert from "node:assert/strict";
import test from "node:test";

import { Pace, timeLeft } from "../pace.js";
import { pauseMs } from "../patience.js";

test("pauses grow to half a minute and are spread over their second half", () => {
  assert.deepEqual([0, 1, 2, 3].map((failures) => pauseMs(failures, () => 1)), [1_000, 2_000, 4_000, 8_000]);
  assert.equal(pauseMs(3, () => 0), 4_000);
  assert.equal(pauseMs(99, () => 1), 30_000);
});

test("the speed is that of the last seconds, and unknown until there is one", () => {
  const pace = new Pace();
  assert.equal(pace.speed(), null);
  pace.note(0, 0);
  pace.note(10, 400);
  assert.equal(pace.speed(), null);
  pace.note(1_000, 1_000);
  assert.equal(pace.speed(), 1_000);
  for (let second = 2; second <= 30; second += 1) pace.note(1_000 + (second - 1) * 50, second * 1_000);
  assert.equal(pace.speed(), 50);
  pace.reset();
  assert.equal(pace.speed(), null);
});

test("bytes that were lost on their way give no speed", () => {
  const pace = new Pace();
  pace.note(1_000, 0);
  pace.note(500, 2_000);
  assert.equal(pace.speed(), null);
});

test("the time that is left is told in the units that matter", () => {
  assert.deepEqual([0.2, 8.1, 59.5, 61, 3_590, 4_790].map(timeLeft), [
    "1 s", "9 s", "60 s", "2 min", "1 h 0 min", "1 h 20 min",
  ]);
});
