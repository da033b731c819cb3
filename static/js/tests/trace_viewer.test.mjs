import assert from "node:assert/strict";
import { test } from "node:test";

import { queryToRange, estimate, roundOutward, rangeToQuery, shortTime } from "../profiles/timeline/estimate.js";
import { repairTrace } from "../profiles/timeline/repair.js";

const bytes = (text) => new TextEncoder().encode(text).buffer;
const text = (buffer) => new TextDecoder().decode(buffer);

test("a truncated list ends after its last complete event", () => {
  const cut = '{"traceEvents": [{"name": "é", "args": {"a": 1}},\n{"name": "b", "args": {"x": {}}},\n{"na';
  assert.deepEqual(JSON.parse(text(repairTrace(bytes(cut)))), {
    traceEvents: [
      { name: "é", args: { a: 1 } },
      { name: "b", args: { x: {} } },
    ],
  });
});

test("a trace that is a bare list is closed as a list", () => {
  assert.deepEqual(JSON.parse(text(repairTrace(bytes('[{"name": "a"}, {"name": "b"')))), [{ name: "a" }]);
});

test("a file without a complete event is unchanged", () => {
  const file = bytes('{"traceEvents": [{"na');
  assert.equal(repairTrace(file), file);
});

const OVERVIEW = {
  begin_s: 10,
  end_s: 14,
  lanes: { 0: [4, 0, 0, 8], 2: [0, 2, 2, 0] },
  counters: [1, 1, 1, 1],
  events: 20,
  size_bytes: 2000,
};

test("the estimate for a cut is interpolated from the bins in its range", () => {
  assert.deepEqual(estimate(OVERVIEW, { begin_s: 10, end_s: 14 }, null), { events: 20, bytes: 2000 });
  assert.deepEqual(estimate(OVERVIEW, { begin_s: 10, end_s: 10.5 }, null), { events: 3, bytes: 250 });
  assert.deepEqual(estimate(OVERVIEW, { begin_s: 11, end_s: 13 }, ["0"]), { events: 2, bytes: 200 });
  assert.deepEqual(estimate(OVERVIEW, { begin_s: 0, end_s: 99 }, []), { events: 4, bytes: 400 });
  assert.deepEqual(estimate(OVERVIEW, { begin_s: 20, end_s: 30 }, null), { events: 0, bytes: 0 });
});

test("a trace without duration is completely in each cut", () => {
  const moment = { ...OVERVIEW, end_s: 10 };
  assert.equal(estimate(moment, { begin_s: 10, end_s: 10 }, null).events, 20);
});

test("times have only the decimals that the range needs", () => {
  assert.equal(shortTime(1.23456789, 20), "1.23");
  assert.equal(shortTime(1.23456789, 0.002), "1.234568");
  assert.equal(shortTime(1.5, 0), "1.5");
});

test("the ends of a range are rounded outward", () => {
  assert.deepEqual(roundOutward(0.0012345678, 0.3652083929999, 0.364), [0.0012, 0.3653]);
  assert.deepEqual(roundOutward(0, 0.25, 0.25), [0, 0.25]);
  assert.deepEqual(roundOutward(0.1, 0.3, 0.2), [0.1, 0.3]);
  const [begin, end] = roundOutward(1.23456789, 1.2345679, 1e-8);
  assert.ok(begin <= 1.23456789 && end >= 1.2345679 && String(end).length <= 11);
});

test("a range is written to a query string and read back", () => {
  const range = { begin_s: 0.5, end_s: 1.25, lanes: ["0", "2"] };
  assert.equal(rangeToQuery(range), "?begin_s=0.5&end_s=1.25&lane=0&lane=2");
  assert.deepEqual(queryToRange(rangeToQuery(range)), range);
  assert.deepEqual(queryToRange("?begin_s=1&end_s=2"), { begin_s: 1, end_s: 2, lanes: null });
  assert.equal(rangeToQuery(null), "");
  for (const wrong of ["", "?begin_s=1", "?begin_s=2&end_s=1", "?begin_s=a&end_s=b"]) {
    assert.equal(queryToRange(wrong), null);
  }
});
