// The bars of a waterfall, as `profiles/comparison/waterfall.py` tells its steps. No DOM.

export const isTotal = (step) => step.kind === "start" || step.kind === "end";

/** Where the bar of a step begins, s: a faster one hangs down from the total so far. */
export const lowerEnd = (step) => Math.min(step.from, step.to);

export const heightOf = (step) => Math.abs(step.to - step.from);

/**
 * The key of the colour of a step: of its verdict, otherwise one of two neutral tones for more and
 * less time. Only a verdict is green or red.
 */
export function toneOf(step) {
  if (isTotal(step)) return "total";
  return step.tone || (step.delta > 0 ? "more" : "less");
}
