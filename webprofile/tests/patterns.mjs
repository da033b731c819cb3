/**
 * Find the regular expressions of our scripts, or measure how their time grows.
 *
 *   node patterns.mjs find FILE...   prints [{place, source, flags}]
 *   node patterns.mjs measure        reads [{place, source, flags, texts: [[start, unit, end]]}], prints the problems
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";

const [SCREEN, MEDIUM, LARGE] = [16 << 10, 64 << 10, 1 << 20];
/** How much faster than the text the time may grow, and the time that is not judged (in ms) because it scatters. */
const [ALLOWED, FLOOR_MS, LIMIT_MS] = [2, 3, 1000];

function find(files) {
  const ts = createRequire(import.meta.url)("typescript");
  const found = [];
  for (const file of files) {
    const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
    // what a pattern that is put together is made of
    const texts = source.statements
      .filter(ts.isVariableStatement)
      .flatMap(({ declarationList }) => [...declarationList.declarations])
      .filter(({ initializer }) => initializer && (ts.isStringLiteralLike(initializer) || ts.isTemplateExpression(initializer)))
      .map((node) => `const ${node.getText()};`);
    const visit = (node) => {
      const isMade = (ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === "RegExp";
      if (isMade || ts.isRegularExpressionLiteral(node)) {
        const regex = vm.runInNewContext(`${texts.join("")} ${node.getText()}`);
        const isSplit = node.parent.expression?.name?.text === "split";
        const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
        const flags = isSplit && !regex.flags.includes("g") ? `${regex.flags}g` : regex.flags;
        found.push({ place: `${file}:${line}`, source: regex.source, flags });
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return found;
}

const ofSize = ([start, unit, end], size) => start + unit.repeat(Math.max(1, Math.floor((size - start.length - end.length) / unit.length))) + end;

/** The shortest CPU time of some runs, in ms; throws if one takes longer than `limit_ms`. */
function cpuMs(context, text, runs, limit_ms) {
  context.text = text;
  const times = Array.from({ length: runs }, () => {
    const before = process.cpuUsage();
    vm.runInContext("text.replace(regex, '')", context, { timeout: limit_ms });
    return process.cpuUsage(before).user / 1000;
  });
  return Math.min(...times);
}

function problemOf({ source, flags, texts }) {
  const context = vm.createContext({ text: "" });
  vm.runInContext(`var regex = new RegExp(${JSON.stringify(source)}, ${JSON.stringify(flags)})`, context);
  const times = [];
  try {
    for (const text of texts) times.push([cpuMs(context, ofSize(text, SCREEN), 1, LIMIT_MS), text]);
  } catch (error) {
    if (error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    return `16 KiB take more than ${LIMIT_MS} ms: ${JSON.stringify(texts[times.length])}`;
  }
  for (const [, text] of times.sort(([a], [b]) => b - a).slice(0, 2)) {
    let [medium, large] = [LIMIT_MS, Infinity];
    try {
      for (const runs of [1, 3, 6]) {
        medium = Math.max(FLOOR_MS, cpuMs(context, ofSize(text, MEDIUM), runs, LIMIT_MS));
        large = cpuMs(context, ofSize(text, LARGE), runs, 16 * LIMIT_MS);
        if (large <= (ALLOWED * LARGE * medium) / MEDIUM) break;
      }
    } catch (error) {
      if (error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    }
    if (large > (ALLOWED * LARGE * medium) / MEDIUM) return `64 KiB take at least ${medium} ms, 1 MiB ${large} ms: ${JSON.stringify(text)}`;
  }
  return null;
}

function measure(patterns) {
  return patterns.map((pattern) => [pattern.place, problemOf(pattern)]).filter(([, problem]) => problem);
}

const [command, ...files] = process.argv.slice(2);
console.log(JSON.stringify(command === "find" ? find(files) : measure(JSON.parse(readFileSync(0, "utf8")))));
