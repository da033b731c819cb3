// One trace for one submit, where the site keeps traces: ids in W3C's form, and what the page did.
// https://www.w3.org/TR/trace-context/

let header = "";
let began = 0;
const phases = [];

/** Begin a trace: from now on requests say that they are a part of it. */
export function beginTrace() {
  header = `00-${randomHex(16)}-${randomHex(8)}-01`;
  began = Date.now();
  phases.length = 0;
}

/** Say that what was done since the last mark is this. */
export function markPhase(name) {
  if (!header) return;
  const now = Date.now();
  phases.push(`${name};${began};${now}`);
  began = now;
}

/** The headers of a request to our own server; none without a trace. */
export function traceHeaders() {
  return header ? { traceparent: header } : {};
}

/** The same of the request that confirms: it tells what the page did, the upload at last. */
export function lastHeaders() {
  if (!header) return {};
  markPhase("upload");
  return { traceparent: header, "x-trace-phases": phases.join(",") };
}

function randomHex(bytes) {
  const values = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(values, (value) => value.toString(16).padStart(2, "0")).join("");
}
