import assert from "node:assert/strict";
import test from "node:test";

/** Replace the document by one with the controls of a form for any device. */
function page(t) {
  const before = globalThis.document;
  t.after(() => Object.assign(globalThis, { document: before }));
  const elements = {
    kind: { value: "model" },
    where: { value: "any" },
    model: { files: [{ name: "net.mge" }], dataset: {} },
  };
  const dataset = { sending: "Uploading", unchecked: "No answer", ready: "Ready: {name} on {device}", any: "any device" };
  const parts = new Map();
  const make = () => ({ dataset, elements, textContent: "[]", querySelectorAll: () => [] });
  globalThis.document = {
    addEventListener() {},
    getElementById(id) {
      if (!parts.has(id)) parts.set(id, make());
      return parts.get(id);
    },
    querySelectorAll: () => [],
  };
  return { text: () => parts.get("submit-state").textContent };
}

test("after an upload, the bar says again that the server does not respond", async (t) => {
  const { text } = page(t);
  const { freeze, showState } = await import("../tasks/new/submit_bar.js");
  const live = { failure: "" };
  showState(live);
  assert.equal(text(), "Ready: net.mge on any device");
  freeze(true);
  assert.equal(text(), "Uploading");
  live.failure = "no answer";
  freeze(false);
  assert.equal(text(), "No answer");
});
