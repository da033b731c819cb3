// The filter of the table: `layer3 type:conv >100us shape:96`. Every term must match.

import { shapesText } from "../operators.js";

const MICRO = { ns: 1e-3, us: 1, µs: 1, μs: 1, ms: 1e3, s: 1e6 };
const TERM = /(-?)(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/giy;
const LIMIT = /^(>=|<=|>|<)(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s)?$/i;

/** What a term may look into, by its word. */
const FIELDS = new Set(["name", "type", "scope", "shape", "dtype", "id"]);

/**
 * Parse a filter to terms `{field, text, isNot}` and `{field: "time", low, high, text}`.
 *
 * `unknown` holds the words before a colon that are no fields; such a term is plain text.
 */
export function parseFilter(text) {
  const terms = [];
  const unknown = [];
  TERM.lastIndex = 0;
  let rest = text.trimStart();
  while (rest) {
    TERM.lastIndex = 0;
    const match = TERM.exec(rest);
    if (!match) break;
    const [all, minus, word, quoted, plain] = match;
    rest = rest.slice(all.length).trimStart();
    const limit = word ? null : LIMIT.exec(plain ?? "");
    const field = word?.toLowerCase();
    if (limit) {
      const us = Number(limit[2]) * MICRO[(limit[3] ?? "us").toLowerCase()];
      terms.push({ field: "time", relation: limit[1], us, text: all, isNot: Boolean(minus) });
    } else if (field === undefined || FIELDS.has(field)) {
      terms.push({ field: field ?? "any", wanted: (quoted ?? plain).toLowerCase(), text: all, isNot: Boolean(minus) });
    } else {
      unknown.push(word);
      terms.push({ field: "any", wanted: all.slice(minus.length).toLowerCase(), text: all, isNot: Boolean(minus) });
    }
  }
  return { terms, unknown };
}

/** A function that tells whether a row matches all terms. Texts that repeat are compared once. */
export function matcher(operators, terms) {
  const tests = terms.map((term) => {
    const test = testOf(operators, term);
    return term.isNot ? (row) => !test(row) : test;
  });
  return (row) => tests.every((test) => test(row));
}

function testOf(operators, term) {
  const { wanted } = term;
  const contains = (text) => text.toLowerCase().includes(wanted);
  const coded = (values, codes, textOf = (value) => value) => {
    const matches = values.map((value) => contains(textOf(value)));
    return (row) => matches[codes[row]] ?? false;
  };
  const ofName = (row) => contains(operators.names[row]);
  const ofType = () => coded(operators.type_names, operators.types);
  const ofScope = () => coded(operators.scopes.values, operators.scopes.codes);
  if (term.field === "time") return timeTest(operators.us, term);
  if (term.field === "name") return ofName;
  if (term.field === "type") return ofType();
  if (term.field === "scope") return ofScope();
  if (term.field === "id") return (row) => operators.ids[row] === wanted;
  if (term.field === "dtype") return coded(operators.dtypes.values, operators.dtypes.codes);
  if (term.field === "shape") {
    const inputs = coded(operators.in_shapes.values, operators.in_shapes.codes, shapeText);
    const outputs = coded(operators.out_shapes.values, operators.out_shapes.codes, shapeText);
    return (row) => inputs(row) || outputs(row);
  }
  const type = ofType();
  const scope = ofScope();
  return (row) => type(row) || scope(row) || ofName(row);
}

/** `1x64` and `1×64` both match. */
function shapeText(json) {
  const text = shapesText(json);
  return `${text} ${text.replaceAll("×", "x")}`;
}

function timeTest(us, { relation, us: limit }) {
  const holds = {
    ">": (value) => value > limit,
    ">=": (value) => value >= limit,
    "<": (value) => value < limit,
    "<=": (value) => value <= limit,
  }[relation];
  return (row) => us[row] !== null && holds(us[row]);
}
