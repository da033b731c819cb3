// The bars of a waterfall, as `profiles/comparison/waterfall.py` tells its steps. No DOM.

import { seconds, timeUnit } from "../../format.js";

export const isTotal = (step) => step.kind === "start" || step.kind === "end";

/** Where the bar of a step begins, s: a faster one hangs down from the total so far. */
export const lowerEnd = (step) => Math.min(step.from, step.to);

export const heightOf = (step) => Math.abs(step.to - step.from);

/** The unit for all times of a waterfall. */
export const unitOf = (steps) => timeUnit(steps.map((step) => step.to));

/** What stands at a bar: a total as it is, a difference with its sign. */
export function amountOf(step, unit) {
  const amount = seconds(Math.abs(step.delta), unit);
  if (isTotal(step) || step.delta === 0 || amount.startsWith("<")) return amount;
  return (step.delta > 0 ? "+" : "\u2212") + amount;
}
