// The columns of the table: the number by which a column sorts, and the text of a cell.
//
// Each column has one unit, chosen from its data. Numbers have three significant digits, and times
// none below the resolution of MegEngine's clock, 1 µs. Unknown values are blank.

import { percent, threeDigits, timeUnit } from "../../format.js";
import { shapesText, shortName } from "../operators.js";

const DECIMAL = ["", "k", "M", "G", "T", "P"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti"];
const BOUNDS = ["compute", "memory", "latency"];

/** The unit of times, µs, shown in one column: its length in µs, its name, its decimals. */
export function timeScale(values) {
  const { scale, name, decimals } = timeUnit(values.map((us) => (us === null ? NaN : us / 1e6)));
  return { length: Math.round(scale * 1e6), name, decimals };
}

/** A difference of times, µs, with its sign. */
function signed(us, { length, decimals }) {
  const text = threeDigits(Math.abs(us) / length, decimals);
  if (us === 0 || !text || text.startsWith("<")) return text;
  return (us > 0 ? "+" : "\u2212") + text;
}

/** The prefix of numbers shown in one column. */
function prefixed(values, unit, base, prefixes) {
  const max = values.reduce((most, value) => (value > most ? value : most), 0);
  const step = max > 1 ? Math.min(prefixes.length - 1, Math.floor(Math.log(max) / Math.log(base))) : 0;
  return { length: base ** step, name: `${prefixes[step]}${unit}` };
}

/**
 * Each value divided by its time, per second; null where one of them is unknown.
 * @param {(number | null)[]} values
 * @param {(number | null)[]} times µs
 */
const ratio = (values, times) => values.map((value, row) => (value === null || !(times[row] > 0) ? null : value / (times[row] * 1e-6)));

/**
 * All columns that have a value: `{key, unit, width, isText, valueOf(row), textOf(row)}` and flags;
 * `compare` orders texts that are not sorted alphabetically.
 * @returns {Record<string, any>[]}
 */
export function makeColumns(operators, words) {
  const { us, total } = operators;
  const several = operators[operators.side].passes.length > 1;
  const numbers = (key, width, values, scale, more = {}) => ({
    key,
    width,
    unit: scale.name,
    scale,
    values,
    valueOf: (row) => values[row] ?? NaN,
    textOf: (row) => (values[row] === null || values[row] === undefined ? "" : threeDigits(values[row] / scale.length, scale.decimals)),
    ...more,
  });
  const texts = (key, width, textOf, more = {}) => ({ key, width, unit: "", isText: true, valueOf: textOf, textOf, ...more });
  const times = (key, width, values, more) => numbers(key, width, values, timeScale(values), more);
  const differences = ({ us: delta, clear }) => {
    const unit = timeScale(delta);
    return numbers("diff", 84, delta, unit, {
      unit: delta.length ? unit.name : "",
      // it stands before its values arrive
      isKept: true,
      textOf: (row) => signed(delta[row] ?? NaN, unit),
      textOfSum: (us_) => (delta.length ? signed(us_, unit) : ""),
      verdictOf: (row) => (clear[row] ? Math.sign(delta[row]) : 0),
    });
  };
  const share = (row) => (us[row] === null || !total ? null : us[row] / total);
  const scale = timeScale(us);
  const samples = operators[operators.side].passes;
  const sorted = several ? us.map((_, row) => samples.map((pass) => pass[row]).filter((value) => value !== null).sort((a, b) => a - b)) : [];
  const quantile = (part) => sorted.map((values) => quantileOf(values, part));
  /** @type {Record<string, any>[]} */
  const columns = [
    texts("op", 250, (row) => shortName(operators, row), { isFixed: true }),
    texts("type", 130, operators.typeOf),
    numbers("device", 116, us, scale, { isFixed: true, hasBar: true }),
    { ...numbers("share", 72, us, scale), unit: "%", textOf: (row) => (share(row) === null ? "" : percent(share(row)).replace(" %", "")) },
    { key: "cum", width: 68, unit: "%", isDerived: true, valueOf: () => NaN, textOf: () => "" },
    ...(operators.side === "device" ? [times("host", 76, operators.host.us)] : []),
    ...(operators.baseline ? [differences(operators.baseline)] : []),
    ...(several ? [{ ...times("passes", 76, us), unit: "", hasPasses: true, textOf: () => "" }] : []),
    numbers("roof", 86, operators.roof, { length: 0.01, name: "%", decimals: 0 }, {
      textOf: (row) => [operators.roof[row] === null ? "" : threeDigits(operators.roof[row] * 100, 0), words[BOUNDS[operators.bound[row]]] ?? ""].filter(Boolean).join(" "),
    }),
    numbers("flops", 76, ratio(operators.computation, us), prefixed(ratio(operators.computation, us), "FLOP/s", 1000, DECIMAL), { isRate: true }),
    numbers("bw", 68, ratio(operators.bytes, us), prefixed(ratio(operators.bytes, us), "B/s", 1024, BINARY), { isRate: true }),
    texts("in", 200, (row) => shapesText(operators.in_shapes.values[operators.in_shapes.codes[row]]), { isCode: true }),
    texts("out", 150, (row) => shapesText(operators.out_shapes.values[operators.out_shapes.codes[row]]), { isCode: true }),
    numbers("flo", 84, operators.computation, prefixed(operators.computation, "FLOP", 1000, DECIMAL), { isExtra: true }),
    numbers("mem", 80, operators.bytes, prefixed(operators.bytes, "B", 1024, BINARY), { isExtra: true }),
    ...(several
      ? [
        times("p10", 72, quantile(0.1), { isExtra: true }),
        times("p90", 72, quantile(0.9), { isExtra: true }),
        times("min", 72, quantile(0), { isExtra: true }),
        numbers("cv", 60, operators[operators.side].cv, { length: 0.01, name: "%", decimals: 1 }, { isExtra: true }),
        numbers("n", 44, operators[operators.side].count, { length: 1, name: "", decimals: 0 }, { isExtra: true }),
      ]
      : []),
    texts("id", 60, (row) => operators.ids[row], { isExtra: true, isText: false, compare: compareIds }),
    texts("name", 320, (row) => operators.names[row], { isExtra: true, isCode: true }),
  ];
  // a column without any value is left out
  return columns.filter((column) => column.isText || column.isDerived || column.values?.some((value) => value !== null) || column.key === "id" || column.isFixed || column.isKept);
}

/** Order ids by their numbers. Those beyond 2^53 that are equal as numbers differ in length or digits. */
function compareIds(a, b) {
  return Number(a) - Number(b) || a.length - b.length || (a < b ? -1 : 1);
}

/** Interpolates linearly between the two nearest samples, as the server does. */
function quantileOf(values, part) {
  if (!values.length) return null;
  const place = part * (values.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, values.length - 1);
  return values[low] + (values[high] - values[low]) * (place - low);
}
