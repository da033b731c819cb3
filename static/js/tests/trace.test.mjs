import assert from "node:assert/strict";
import test from "node:test";

import { beginTrace, finalTraceHeaders, markPhase, traceHeaders } from "../requests.js";

test("without a trace requests have no trace headers", () => {
  markPhase("hash");
  assert.deepEqual([traceHeaders(), finalTraceHeaders()], [{}, {}]);
});

test("requests of one submission carry one trace id, and the last one the phases", () => {
  const before = Date.now();
  beginTrace();
  const { traceparent } = traceHeaders();
  assert.match(traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  markPhase("hash");
  const last = finalTraceHeaders();
  assert.equal(last.traceparent, traceparent);
  const phases = last["x-trace-phases"].split(",").map((phase) => phase.split(";"));
  assert.deepEqual(phases.map(([name]) => name), ["hash", "upload"]);
  const times = phases.flatMap(([, began, ended]) => [Number(began), Number(ended)]);
  assert.deepEqual(times, [...times].sort());
  assert.ok(times[0] >= before && times[1] === times[2]);
});

test("the next submission has another trace id", () => {
  const first = traceHeaders().traceparent;
  beginTrace();
  assert.notEqual(traceHeaders().traceparent, first);
});
