// Repair a truncated trace, which ends in the middle of its list of events and which Perfetto cannot read.

/** The part that is searched for the last complete event; an event is far smaller. */
const TAIL_BYTES = 1 << 20;
const BETWEEN_EVENTS = /\}\s*,\s*\{/g;

/** Cut a trace after its last complete event and close the list; without a complete event it is returned unchanged. */
export function repairTrace(buffer) {
  const bytes = new Uint8Array(buffer);
  const from = Math.max(0, bytes.length - TAIL_BYTES);
  // Latin-1 has one character for each byte, so string indices are byte offsets
  const tail = new TextDecoder("latin1").decode(bytes.subarray(from));
  const last = [...tail.matchAll(BETWEEN_EVENTS)].at(-1);
  if (last === undefined) return buffer;
  const isBare = new TextDecoder("latin1").decode(bytes.subarray(0, 100)).trimStart().startsWith("[");
  const end = new TextEncoder().encode(isBare ? "]" : "]}");
  const whole = bytes.subarray(0, from + last.index + 1);
  const result = new Uint8Array(whole.length + end.length);
  result.set(whole);
  result.set(end, whole.length);
  return result.buffer;
}
