import assert from "node:assert/strict";
import test from "node:test";

import { relativeTime, elapsed, updateElapsedTimes } from "../ago.js";

test("a recent time is shown relative to now, in the page's language", () => {
  assert.equal(relativeTime(5, "en"), "5 sec. ago");
  assert.equal(relativeTime(125, "en"), "2 min. ago");
  assert.equal(relativeTime(7_300, "en"), "2 hr. ago");
  assert.equal(relativeTime(125, "zh-hans"), "2分钟前");
});

test("old, future and invalid times have no relative text", () => {
  for (const seconds of [86_400, -3_600, NaN]) assert.equal(relativeTime(seconds, "en"), null);
});

test("a time slightly in the future, from another clock, counts as now", () => {
  assert.equal(relativeTime(-20, "en"), "0 sec. ago");
});

test("a duration has at most two units and is never negative", () => {
  assert.equal(elapsed(24.9), "24 s");
  assert.equal(elapsed(192), "3 min 12 s");
  assert.equal(elapsed(3_900), "1 h 5 min");
  assert.equal(elapsed(-3), "0 s");
});

test("elapsed time is measured by the server's clock", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.parse("2026-03-01T15:00:00Z") });
  const element = { dataset: { since: "2026-03-01T10:00:00Z", now: "2026-03-01T10:00:24Z" }, textContent: "24 s" };
  const root = { querySelectorAll: () => [element] };
  updateElapsedTimes(root);
  assert.equal(element.textContent, "24 s");
  t.mock.timers.tick(3_000);
  updateElapsedTimes(root);
  assert.equal(element.textContent, "27 s");
});
