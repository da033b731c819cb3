/**
 * Find the regular expressions of our scripts, or measure how their time grows.
 *
 *   node patterns.mjs find FILE...   prints [{place, source, flags}]
 *   node patterns.mjs measure        reads {screen, allowed, growth: {small, large, floor_s, limit_s},
 *                                    patterns: [{place, source, flags, texts: [[start, unit, end]]}]},
 *                                    which test_patterns.py explains, and prints the problems
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";

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

function problemOf({ source, flags, texts }, { screen, allowed, growth: { small, large, floor_s, limit_s } }) {
  const context = vm.createContext({ text: "" });
  vm.runInContext(`var regex = new RegExp(${JSON.stringify(source)}, ${JSON.stringify(flags)})`, context);
  const [limitMs, ratio] = [1000 * limit_s, large / small];
  const times = [];
  try {
    for (const text of texts) times.push([cpuMs(context, ofSize(text, screen), 1, limitMs), text]);
  } catch (error) {
    if (error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    return `${screen} characters take more than ${limit_s} s: ${JSON.stringify(texts[times.length])}`;
  }
  for (const [screenedMs, text] of times.sort(([a], [b]) => b - a).slice(0, 2)) {
    if (large === screen && screenedMs <= 1000 * allowed * ratio * floor_s) break;
    let [smallMs, largeMs] = [limitMs, Infinity];
    const isLinear = () => largeMs <= allowed * ratio * Math.max(1000 * floor_s, smallMs);
    try {
      for (const runs of [1, 3, 6]) {
        smallMs = cpuMs(context, ofSize(text, small), runs, limitMs);
        largeMs = cpuMs(context, ofSize(text, large), runs, ratio * limitMs);
        if (isLinear()) break;
      }
    } catch (error) {
      if (error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    }
    if (!isLinear()) return `${small} characters take at least ${smallMs} ms, ${large} ${largeMs} ms: ${JSON.stringify(text)}`;
  }
  return null;
}

function measure({ patterns, ...limits }) {
  return patterns.map((pattern) => [pattern.place, problemOf(pattern, limits)]).filter(([, problem]) => problem);
}

const [command, ...files] = process.argv.slice(2);
console.log(JSON.stringify(command === "find" ? find(files) : measure(JSON.parse(readFileSync(0, "utf8")))));
