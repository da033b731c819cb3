// Texts of the pictures, as they may stand on a canvas.

import { fill, percent, seconds, timeUnit } from "../format.js";

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name on one line that turns no other text around and hides nothing: odd characters are `�`. */
export function clean(name, longest = 120) {
  const seen = name.slice(0, 4 * longest).replace(UNSEEN, "\ufffd");
  const letters = Array.from(seen);
  return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : seen;
}

/** A time in µs as the reader sees it; of several that stand side by side, in the unit of the longest. */
export const micro = (us, unit) => seconds(us === null ? null : us / 1e6, unit);

/** The unit for times in µs that stand side by side. */
export const unitOfMicro = (times) => timeUnit(times.map((us) => us / 1e6));

/** The same at an axis that ends at `most`: no zeros that say nothing. */
export const axisMicro = (most) => {
  const unit = unitOfMicro([most]);
  return (us) => micro(us, unit).replace(/\.(\d*?)0+ /, (_, digits) => (digits ? `.${digits} ` : " "));
};

/** What a picture says of an operator: its name; its type, time and share of the total. */
export function describeOperator(operators, row, words) {
  const us = operators.us[row];
  const share = us === null || !operators.total ? "" : percent(us / operators.total);
  return [
    clean(operators.names[row]),
    fill(words.operator, { type: clean(operators.typeOf(row)), time: micro(us), share: share || "–" }),
  ];
}
