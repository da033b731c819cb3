// How much a cut of a trace has, from what its overview tells of equal parts of the time.

/** How many of `counts`, one for each part from `whole.begin_s` to `whole.end_s`, lie in a range. */
function countIn(counts, whole, { begin_s, end_s }) {
  const width = (whole.end_s - whole.begin_s) / counts.length;
  const [from, to] = [begin_s, end_s].map((at) => (width > 0 ? (at - whole.begin_s) / width : 0));
  let sum = 0;
  for (const [place, count] of counts.entries()) {
    // of a trace of one moment all is in the first part
    const share = width > 0 ? Math.min(to, place + 1) - Math.max(from, place) : 1;
    if (share > 0) sum += count * share;
  }
  return sum;
}

/** {events, bytes} of a cut, about: `lanes` are numbers as texts, null for all. */
export function estimate(told, range, lanes) {
  const chosen = lanes === null ? Object.keys(told.lanes) : lanes;
  let events = countIn(told.counters, told, range);
  for (const lane of chosen) events += countIn(told.lanes[lane] ?? [], told, range);
  const bytes = told.events > 0 ? (told.size_bytes * events) / told.events : 0;
  return { events: Math.round(events), bytes: Math.round(bytes) };
}

/** A time as short as it can be told apart from others of a range of this length. */
export function shortTime(value, length) {
  return String(Number(value.toFixed(digitsOf(length))));
}

/** A range with ends as short as that, which leaves out nothing of what lies in it. */
export function outward(begin, end, length) {
  const step = 10 ** digitsOf(length);
  const short = (value, side) => {
    const near = Number(value.toFixed(digitsOf(length)));
    return near === value ? value : side(value * step) / step;
  };
  return [short(begin, Math.floor), short(end, Math.ceil)];
}

const digitsOf = (length) => (length > 0 ? Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(length)))) : 6);

/** The address of a cut, and of the page that shows it: nothing for all of the trace. */
export function question(range) {
  const asked = new URLSearchParams();
  if (range === null) return "";
  asked.set("begin_s", range.begin_s);
  asked.set("end_s", range.end_s);
  for (const lane of range.lanes ?? []) asked.append("lane", lane);
  return `?${asked}`;
}

/** What such an address asks for, null if nothing. */
export function answered(search) {
  const asked = new URLSearchParams(search);
  const [begin_s, end_s] = ["begin_s", "end_s"].map((name) => Number.parseFloat(asked.get(name)));
  if (!(begin_s <= end_s)) return null;
  const lanes = asked.getAll("lane");
  return { begin_s, end_s, lanes: lanes.length ? lanes : null };
}
