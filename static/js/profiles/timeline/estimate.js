// Estimate the size of a cut of a trace from its overview, and convert ranges to and from URLs. No DOM.

/** Interpolate the count in a range. counts: events in bins of equal width between the overview's begin_s and end_s. */
function countIn(counts, overview, { begin_s, end_s }) {
  const width = (overview.end_s - overview.begin_s) / counts.length;
  const [from, to] = [begin_s, end_s].map((time) => (width > 0 ? (time - overview.begin_s) / width : 0));
  let sum = 0;
  for (const [bin, count] of counts.entries()) {
    // a trace without duration has all events in the first bin
    const share = width > 0 ? Math.min(to, bin + 1) - Math.max(from, bin) : 1;
    if (share > 0) sum += count * share;
  }
  return sum;
}

/** Estimate {events, bytes} of a cut. lanes: lane numbers as strings, or null for all lanes. */
export function estimate(overview, range, lanes) {
  const selected = lanes === null ? Object.keys(overview.lanes) : lanes;
  let events = countIn(overview.counters, overview, range);
  for (const lane of selected) events += countIn(overview.lanes[lane] ?? [], overview, range);
  const bytes = overview.events > 0 ? (overview.size_bytes * events) / overview.events : 0;
  return { events: Math.round(events), bytes: Math.round(bytes) };
}

/** Format a time, s, with the decimals that a range of this length needs. */
export function shortTime(value, length) {
  return String(Number(value.toFixed(digitsOf(length))));
}

/** Round the ends of a range to these decimals, outward, so that the result contains the range. */
export function roundOutward(begin, end, length) {
  const step = 10 ** digitsOf(length);
  const roundTo = (value, round) => {
    const nearest = Number(value.toFixed(digitsOf(length)));
    return nearest === value ? value : round(value * step) / step;
  };
  return [roundTo(begin, Math.floor), roundTo(end, Math.ceil)];
}

/** The number of decimals for times, s, in a range of this length. */
const digitsOf = (length) => (length > 0 ? Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(length)))) : 6);

/** The query string of a cut, in its URL and in that of the page; empty for the whole trace (null). */
export function rangeToQuery(range) {
  const params = new URLSearchParams();
  if (range === null) return "";
  params.set("begin_s", range.begin_s);
  params.set("end_s", range.end_s);
  for (const lane of range.lanes ?? []) params.append("lane", lane);
  return `?${params}`;
}

/** The range in a query string, or null. */
export function queryToRange(search) {
  const params = new URLSearchParams(search);
  const [begin_s, end_s] = ["begin_s", "end_s"].map((name) => Number.parseFloat(params.get(name)));
  if (!(begin_s <= end_s)) return null;
  const lanes = params.getAll("lane");
  return { begin_s, end_s, lanes: lanes.length ? lanes : null };
}
