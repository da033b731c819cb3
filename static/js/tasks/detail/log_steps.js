// The headings of steps in a log, which the agent writes before each process of a run:
// "==== profile 2 of 5: load_and_run --input ...". Pure.

const MARK = "==== ";
/** longer lines are no headings, so they are not waited for */
const LONGEST = 10_000;
const HEADING = /^==== (model inputs|latency|profile|dumps|run|arm|pairs)(?: (\d{1,4}) of (\d{1,4}))?(?:, try (\d{1,4}))?(?: \([\w.]{1,40}\))?: /;
const KINDS = { "model inputs": "inputs" };

/** The step that a line is the heading of: {kind, again, number, count}; null for any other line. */
export function stepOf(line) {
  const match = HEADING.exec(line);
  if (!match) return null;
  const [, kind, number, count, again] = match;
  return { kind: kind === "latency" && count ? "latencies" : (KINDS[kind] ?? kind), again, number, count };
}

/** Whether an incomplete line may still become a heading. */
function mayBeHeading(line) {
  return line.length > 0 && line.length < LONGEST && (MARK.startsWith(line) || line.startsWith(MARK));
}

/**
 * Split a text into its steps: [{step, text}]. `step` is null for the text before the first heading; each other
 * text begins with its heading. `rest` is an incomplete last line that may become a heading.
 */
export function splitSteps(text) {
  const lines = text.split(/(?<=\n)/);
  const last = lines.at(-1);
  const rest = !last.endsWith("\n") && mayBeHeading(last) ? lines.pop() : "";
  const parts = [{ step: null, text: "" }];
  for (const line of lines) {
    const step = line.startsWith(MARK) ? stepOf(line) : null;
    if (step) parts.push({ step, text: line });
    else parts.at(-1).text += line;
  }
  return { parts: parts.filter((part) => part.text), rest };
}
