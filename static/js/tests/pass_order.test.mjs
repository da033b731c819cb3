import assert from "node:assert/strict";
import test from "node:test";

import { sortByPass } from "../profiles/list/run_files.js";

const ordered = (...names) => sortByPass(names.map((name) => ({ name }))).map(({ name }) => name);

test("passes are sorted by number, the one without a number first", () => {
  assert.deepEqual(ordered("p-10.json", "p-2.json", "p.json"), ["p.json", "p-2.json", "p-10.json"]);
  assert.deepEqual(ordered("p (3).json", "p2.json", "p.json"), ["p.json", "p2.json", "p (3).json"]);
  assert.deepEqual(ordered("resnet18-2.json", "resnet18.json"), ["resnet18.json", "resnet18-2.json"]);
  assert.deepEqual(ordered("2b.json", "10a.json"), ["2b.json", "10a.json"]);
});

test("files that are not passes of one run keep the order of selection", () => {
  const chosen = ["resnet18.json", "bert_tiny.json", "chrome_timeline.json"];
  assert.deepEqual(ordered(...chosen), chosen);
  assert.deepEqual(ordered("b.json", "p-2.json", "a.json", "p.json"), ["b.json", "p.json", "p-2.json", "a.json"]);
});

test("files with equal names keep their order, and an empty list is allowed", () => {
  const twins = [{ name: "a", n: 1 }, { name: "a", n: 2 }];
  assert.deepEqual(sortByPass(twins), twins);
  assert.deepEqual(ordered(), []);
});
