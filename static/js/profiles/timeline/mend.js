// A trace that ends in the middle of its list, which Perfetto refuses to read.

/** events are smaller by far */
const TAIL_BYTES = 1 << 20;
const BETWEEN_EVENTS = /\}\s*,\s*\{/g;

/** The bytes up to the last event that is whole, with the list closed; as they are if none is. */
export function mended(buffer) {
  const bytes = new Uint8Array(buffer);
  const from = Math.max(0, bytes.length - TAIL_BYTES);
  // one letter for each byte, so that places in the text are places in the file
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
