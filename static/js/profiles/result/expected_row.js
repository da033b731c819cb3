// A row that is selected before its figures are there: its place, its name, its type.

import { clean } from "../../charts/text.js";

const LONGEST_NAME = 200;

/** A marked row for `table`, whose heads say which cells it has; `href` leads to the operator. */
export function expectedRow(table, { place, operator, name, type, href }) {
  const row = document.createElement("tr");
  row.dataset.row = operator;
  for (const [key, value] of [
    ["role", "row"],
    ["aria-rowindex", place + 2],
    ["aria-selected", true],
    ["aria-busy", true],
  ]) {
    row.setAttribute(key, value);
  }
  const [rank, ...heads] = table.tHead.rows[0].cells;
  row.append(cell(rank, `#${place}`));
  for (const head of heads) {
    const isOperator = head.classList.contains("operators__op");
    row.append(isOperator ? operatorCell(head, { name, type, href }) : cell(head, "…"));
  }
  return row;
}

function cell(head, ...content) {
  const made = document.createElement("td");
  made.className = head.className;
  made.setAttribute("role", "gridcell");
  made.append(...content);
  return made;
}

function operatorCell(head, { name, type, href }) {
  const made = document.createElement("th");
  made.className = head.className;
  made.setAttribute("role", "rowheader");
  const link = document.createElement("a");
  link.className = "operators__name";
  link.href = href;
  link.tabIndex = -1;
  link.append(isolated(clean(name, LONGEST_NAME) || "–"));
  const kind = isolated(clean(type, LONGEST_NAME));
  kind.className = "operator__type";
  made.append(link, document.createElement("br"), kind);
  return made;
}

function isolated(text) {
  const made = document.createElement("bdi");
  made.textContent = text;
  return made;
}
