// What the table lists: rows after filter, order and grouping. Without the DOM.

import { shapesText } from "../operators.js";
import { matcher } from "./filter.js";

/**
 * The timed rows that match, and how many constants are hidden.
 *
 * within(row): whether a row is in a range of time; only: a Set of rows, of which none is hidden
 */
export function selectRows(operators, { terms = [], constants = false, within = null, only = null }) {
  const { us } = operators;
  const host = operators.host.us;
  const isConstant = operators.type_names.map((_, code) => operators.constant_types.includes(code));
  const matches = matcher(operators, terms);
  const rows = [];
  let hidden = 0;
  for (let row = 0; row < us.length; row += 1) {
    if (us[row] === null && host[row] === null) continue;
    if (only && !only.has(row)) continue;
    if (within && !within(row)) continue;
    if (terms.length && !matches(row)) continue;
    if (!constants && !only && isConstant[operators.types[row]]) hidden += 1;
    else rows.push(row);
  }
  return { rows, hidden };
}

/** Sort rows by a column, in place; unknown numbers are last in either direction, equal ones by row. */
export function sortRows(rows, column, isAscending) {
  const keys = column.isText || column.compare ? ranksOf(rows, column) : rows.map(column.valueOf);
  const ofRow = new Float64Array(rows.reduce((most, row) => Math.max(most, row), -1) + 1);
  const last = isAscending ? Infinity : -Infinity;
  rows.forEach((row, place) => {
    ofRow[row] = Number.isNaN(keys[place]) ? last : keys[place];
  });
  // a difference of infinities is no number
  return isAscending
    ? rows.sort((a, b) => (ofRow[a] < ofRow[b] ? -1 : ofRow[a] > ofRow[b] ? 1 : a - b))
    : rows.sort((a, b) => (ofRow[a] > ofRow[b] ? -1 : ofRow[a] < ofRow[b] ? 1 : a - b));
}

/** The places of the rows' texts in their order: comparing numbers is far faster than texts. */
function ranksOf(rows, column) {
  const texts = rows.map(column.valueOf);
  const ranks = new Map([...new Set(texts)].sort(column.compare).map((text, rank) => [text, rank]));
  return texts.map((text) => ranks.get(text));
}

/** How rows are grouped: the path of groups of a row, outermost first. */
const PATHS = {
  type: (operators) => (row) => [operators.typeOf(row)],
  scope: (operators) => (row) => operators.scopes.values[operators.scopes.codes[row]]?.split(".").filter(Boolean) ?? [],
  shape: (operators) => {
    const texts = operators.in_shapes.values.map(shapesText);
    return (row) => [texts[operators.in_shapes.codes[row]] ?? ""];
  },
};
export const GROUPS = Object.keys(PATHS);

/**
 * Group sorted rows to entries: `{row, depth}` and `{group, depth}`.
 *
 * Groups are sorted by time. Rows of a closed group are left out; `open` holds the keys of open ones.
 */
export function groupRows(operators, rows, kind, open) {
  const pathOf = PATHS[kind](operators);
  const root = makeGroup("", "", -1);
  for (const row of rows) {
    let group = root;
    let key = "";
    for (const label of pathOf(row)) {
      key = key ? `${key}\u0000${label}` : label;
      if (!group.groups.has(label)) group.groups.set(label, makeGroup(key, label, group.depth + 1));
      group = group.groups.get(label);
      count(operators, group, row);
    }
    group.rows.push(row);
  }
  const entries = [];
  addEntries(entries, root, open);
  return entries;
}

function makeGroup(key, label, depth) {
  return { key, label, depth, groups: new Map(), rows: [], us: 0, hostUs: 0, diffUs: 0, size: 0 };
}

function count(operators, group, row) {
  group.us += operators.us[row] ?? 0;
  group.hostUs += operators.host.us[row] ?? 0;
  group.diffUs += operators.baseline?.us[row] ?? 0;
  group.size += 1;
}

function addEntries(entries, parent, open) {
  const groups = [...parent.groups.values()].sort((a, b) => b.us - a.us);
  for (const group of groups) {
    entries.push({ group, depth: group.depth });
    if (open.has(group.key)) addEntries(entries, group, open);
  }
  for (const row of parent.rows) entries.push({ row, depth: parent.depth + 1 });
}

/** The share of the total, up to and including each entry; those within a group do not count again. */
export function runningShares(operators, entries) {
  const shares = new Float64Array(entries.length);
  let sum = 0;
  entries.forEach((entry, place) => {
    if (entry.depth === 0) sum += entry.group ? entry.group.us : (operators.us[entry.row] ?? 0);
    shares[place] = operators.total ? sum / operators.total : NaN;
  });
  return shares;
}

/** Rows as TSV with a head, for a spreadsheet. */
export function asTsv(rows, columns, titleOf) {
  const clean = (text) => String(text).replaceAll(/[\t\r\n]+/g, " ");
  const lines = [columns.map((column) => clean(titleOf(column))).join("\t")];
  for (const row of rows) lines.push(columns.map((column) => clean(column.textOf(row))).join("\t"));
  return `${lines.join("\n")}\n`;
}


