// Text for the charts: safe names, times with units, descriptions of operators.

import { fill, percent, seconds, timeUnit } from "../format.js";

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Make a name safe to draw: control, invisible and bidirectional characters become `�`, long names are cut. */
export function clean(name, maxLength = 120) {
  const visible = name.slice(0, 4 * maxLength).replace(INVISIBLE, "\ufffd");
  const characters = Array.from(visible);
  return characters.length > maxLength ? `${characters.slice(0, maxLength - 1).join("")}…` : visible;
}

/** Format a time in µs. unit: from `unitOfMicro`, for times side by side. */
export const micro = (us, unit) => seconds(us === null ? null : us / 1e6, unit);

/** The common unit for times in µs that are shown side by side. */
export const unitOfMicro = (times) => timeUnit(times.map((us) => us / 1e6));

/** A formatter for the labels of an axis up to `max` µs, without trailing zeros. `step`: distance of the labels, µs. */
export const axisMicro = (max, step = 0) => {
  const unit = timeUnit([max / 1e6], step / 1e6);
  return (us) => micro(us, unit).replace(/(\.\d*[1-9])0+ |\.0+ /, (_, digits) => `${digits ?? ""} `);
};

/** Describe an operator in two lines: its name; its type, time and share of the total. */
export function describeOperator(operators, row, words) {
  const us = operators.us[row];
  const share = us === null || !operators.total ? "" : percent(us / operators.total);
  return [
    clean(operators.names[row]),
    fill(words.operator, { type: clean(operators.typeOf(row)), time: micro(us, operators.unit), share: share || "–" }),
  ];
}
