// Distributed tracing of a task's submission, if the site collects traces: trace ids in the format of
// W3C Trace Context (https://www.w3.org/TR/trace-context/), and the phases of the work in the page.

let header = "";
let began = 0;
const phases = [];

/** Begin a trace; later requests carry its id. */
export function beginTrace() {
  header = `00-${randomHex(16)}-${randomHex(8)}-01`;
  began = Date.now();
  phases.length = 0;
}

/** Record the time since the last mark as the phase `name`. */
export function markPhase(name) {
  if (!header) return;
  const now = Date.now();
  phases.push(`${name};${began};${now}`);
  began = now;
}

/** The trace headers of a request to the site; empty without a trace. */
export function traceHeaders() {
  return header ? { traceparent: header } : {};
}

/** The trace headers of the final submit request, with the phases; records the upload as the last one. */
export function finalTraceHeaders() {
  if (!header) return {};
  markPhase("upload");
  return { traceparent: header, "x-trace-phases": phases.join(",") };
}

function randomHex(bytes) {
  const values = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(values, (value) => value.toString(16).padStart(2, "0")).join("");
}
