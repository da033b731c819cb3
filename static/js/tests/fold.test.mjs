import assert from "node:assert/strict";
import test from "node:test";

import { whenOpened } from "../fold.js";

function makeFold(isOpen) {
  const fold = Object.assign(new EventTarget(), { open: isOpen });
  const counter = { opened: 0 };
  const turn = (isNowOpen) => {
    fold.open = isNowOpen;
    fold.dispatchEvent(new Event("toggle"));
  };
  whenOpened(fold, () => (counter.opened += 1));
  return { turn, counter };
}

test("each opening of a fold counts, its closing does not", () => {
  const { turn, counter } = makeFold(false);
  assert.equal(counter.opened, 0);
  turn(true);
  turn(false);
  assert.equal(counter.opened, 1);
  turn(true);
  assert.equal(counter.opened, 2);
});

test("a fold that was opened before its script ran counts once", () => {
  const { turn, counter } = makeFold(true);
  assert.equal(counter.opened, 1);
  // its event may still arrive
  turn(true);
  assert.equal(counter.opened, 1);
});
