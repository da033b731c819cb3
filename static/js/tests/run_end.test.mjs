import assert from "node:assert/strict";
import test from "node:test";

import { goesOn } from "../tasks/detail/run_end.js";

test("a page goes on to the result when its run ends well while nobody reads it", () => {
  assert.equal(goesOn("running", "succeeded", false), true);
  assert.equal(goesOn("waiting", "succeeded", false), true);
  assert.equal(goesOn("running", "succeeded", true), false);
  assert.equal(goesOn("running", "failed", false), false);
  assert.equal(goesOn("running", "cancelled", false), false);
});

test("a page of a run that had ended before stays", () => {
  assert.equal(goesOn("succeeded", "succeeded", false), false);
  assert.equal(goesOn("failed", "succeeded", false), false);
});
