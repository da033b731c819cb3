/**
 * Find the regular expressions of our scripts, or measure how their time grows.
 *
 *   node patterns.mjs find FILE...   prints [{place, source, flags}]
 *   node patterns.mjs measure        reads {screen, exponent, growth: {small, large, floor_s, limit_s},
 *                                    patterns: [{place, source, flags, texts: [[start, unit, end]]}]},
 *                                    which test_patterns.py explains, and prints the problems
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";

function find(files) {
  const { parse } = createRequire(import.meta.url)("espree");
  const found = [];
  for (const file of files) {
    const text = readFileSync(file, "utf8");
    const textOf = (node) => text.slice(...node.range);
    const program = parse(text, { ecmaVersion: "latest", sourceType: "module", range: true, loc: true });
    // what a pattern that is put together is made of
    const texts = program.body
      .map((statement) => statement.declaration ?? statement)
      .flatMap((statement) => statement.declarations ?? [])
      .filter(({ init }) => init?.type === "TemplateLiteral" || typeof init?.value === "string")
      .map((node) => `const ${textOf(node)};`);
    const visit = (node, parent) => {
      const isMade = ["NewExpression", "CallExpression"].includes(node.type) && node.callee.name === "RegExp";
      if (isMade || node.regex) {
        const regex = vm.runInNewContext(`${texts.join("")} ${textOf(node)}`);
        const isSplit = parent.callee?.property?.name === "split";
        const flags = isSplit && !regex.flags.includes("g") ? `${regex.flags}g` : regex.flags;
        found.push({ place: `${file}:${node.loc.start.line}`, source: regex.source, flags });
      }
      for (const child of Object.values(node).flat()) if (typeof child?.type === "string") visit(child, node);
    };
    visit(program, null);
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

function problemOf({ source, flags, texts }, { screen, exponent, growth: { small, large, floor_s, limit_s } }) {
  const context = vm.createContext({ text: "" });
  vm.runInContext(`var regex = new RegExp(${JSON.stringify(source)}, ${JSON.stringify(flags)})`, context);
  const [limitMs, ratio] = [1000 * limit_s, large / small];
  const allowed = ratio ** exponent;
  const times = [];
  try {
    for (const text of texts) times.push([cpuMs(context, ofSize(text, screen), 1, limitMs), text]);
  } catch (error) {
    if (error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    return `${screen} characters take more than ${limit_s} s: ${JSON.stringify(texts[times.length])}`;
  }
  for (const [screenedMs, text] of times.sort(([a], [b]) => b - a).slice(0, 2)) {
    if (large === screen && screenedMs <= 1000 * allowed * floor_s) break;
    let [smallMs, largeMs] = [limitMs, Infinity];
    const isLinear = () => largeMs <= allowed * Math.max(1000 * floor_s, smallMs);
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
