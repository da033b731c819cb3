import assert from "node:assert/strict";
import test from "node:test";

import { moved } from "../charts/timeline_layout.js";
import { MOST, matching, taskNumber } from "../palette/match.js";
import { bindShortcuts, isBound, keyOf } from "../shortcuts.js";

const entries = (...labels) => labels.map((label) => ({ group: "Operators", label, hint: `conv(${label})` }));
const labels = (found) => found.map(({ label }) => label);

test("every word of a query must match, and labels come before hints", () => {
  const all = entries("layer2.conv1 · relu", "conv1", "layer1.conv1", "bn1");
  assert.deepEqual(labels(matching(all, "conv1")), ["conv1", "layer2.conv1 · relu", "layer1.conv1"]);
  assert.deepEqual(labels(matching(all, "CONV layer1")), ["layer1.conv1"]);
  assert.deepEqual(labels(matching(all, "conv bn1")), ["bn1"]);
  assert.deepEqual(labels(matching(all, "  ")), labels(all));
  assert.deepEqual(matching(all, "nothing"), []);
});

test("a group lists a limited number of entries, the best of them", () => {
  const all = entries(...Array.from({ length: 50 }, (_, number) => `layer${number}`), "conv9");
  assert.equal(matching(all, "").length, MOST);
  assert.equal(labels(matching(all, "conv"))[0], "conv9");
});

test("a number in a query is that of a task", () => {
  assert.deepEqual(["#12", " 7 ", "resnet50", "1.5", ""].map(taskNumber), [12, 7, null, null, null]);
});

test("keys are named as in the table of shortcuts", () => {
  const key = (event, isMac = false) => keyOf(event, isMac);
  assert.equal(key({ key: "k", code: "KeyK", ctrlKey: true }), "Mod+k");
  assert.equal(key({ key: "k", code: "KeyK", metaKey: true }, true), "Mod+k");
  assert.equal(key({ key: "k", code: "KeyK", ctrlKey: true }, true), "k");
  assert.equal(key({ key: "?", code: "Slash", shiftKey: true }), "?");
  assert.equal(key({ key: "W", code: "KeyW", shiftKey: true }), "w");
  assert.equal(key({ key: "ArrowLeft", code: "ArrowLeft", shiftKey: true }), "Shift+ArrowLeft");
  // a Cyrillic keyboard, and an input method
  assert.equal(key({ key: "о", code: "KeyJ" }), "j");
  assert.equal(key({ key: "Process", code: "KeyJ" }), "j");
});

test("a shortcut is bound until the last of its bindings ends", () => {
  const [end, endOther] = [1, 2].map(() => bindShortcuts({ zoom_in: () => true }));
  end();
  assert.equal(isBound("zoom_in"), true);
  endOther();
  assert.equal(isBound("zoom_in"), false);
});

test("a timeline zooms and pans within its span", () => {
  assert.deepEqual(moved("in", [0, 100], 100), [25, 75]);
  assert.deepEqual(moved("in", [0, 100], 100, 10), [0, 50]);
  assert.deepEqual(moved("out", [25, 75], 100), [0, 100]);
  assert.deepEqual(moved("left", [50, 100], 100), [25, 75]);
  assert.deepEqual(moved("right", [50, 100], 100), [50, 100]);
  assert.deepEqual(moved("whole", [50, 60], 100), [0, 100]);
});
