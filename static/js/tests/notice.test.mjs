import assert from "node:assert/strict";
import test from "node:test";

test("the notice stays until its last cause has ended, and tells the most severe one", async (t) => {
  const before = globalThis.document;
  t.after(() => Object.assign(globalThis, { document: before }));
  const element = { hidden: true, textContent: "", dataset: { lost: "Connection lost", failed: "Not refreshed", gone: "Not found" } };
  globalThis.document = { getElementById: () => element };
  const { hideNotice, showNotice } = await import("../notice.js");
  const shown = () => !element.hidden && element.textContent;
  showNotice("lost");
  hideNotice("failed", "gone");
  assert.equal(shown(), "Connection lost");
  showNotice("failed");
  assert.equal(shown(), "Not refreshed");
  hideNotice("lost");
  assert.equal(shown(), "Not refreshed");
  showNotice("lost");
  hideNotice("failed", "gone");
  assert.equal(shown(), "Connection lost");
  hideNotice("lost");
  assert.equal(shown(), false);
});
