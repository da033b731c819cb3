// The table with a chart's data, for screen readers and for exact numbers.

import { fill } from "../format.js";
import { micro, unitOfMicro } from "./text.js";

/** Rows shown in one table; the profile's export has all of them. */
const MAX_ROWS = 200;

/** Fill the table when it is first opened. rows(): yields arrays of cells, each a string or a time `{us}`. */
export function fillWhenOpened(details, { rows, count }) {
  const body = details.querySelector("tbody");
  const note = details.querySelector("[data-part='table-note']");
  const fillBody = () => {
    if (!details.open || body.childElementCount) return;
    const visible = [];
    for (const cells of rows()) {
      if (visible.length === MAX_ROWS) break;
      visible.push(cells);
    }
    body.append(...formatTimes(visible).map(makeRow));
    note.hidden = count <= MAX_ROWS;
    note.textContent = fill(note.dataset.text, { shown: visible.length, all: count });
  };
  body.replaceChildren();
  fillBody();
  details.ontoggle = fillBody;
}

/** Format the times of all rows in one common unit. */
function formatTimes(rows) {
  const times = rows.flat().filter((cell) => typeof cell === "object");
  const unit = unitOfMicro(times.map(({ us }) => us));
  return rows.map((cells) => cells.map((cell) => (typeof cell === "object" ? micro(cell.us, unit) : cell)));
}

function makeRow(cells) {
  const row = document.createElement("tr");
  cells.forEach((text, column) => {
    const cell = document.createElement(column ? "td" : "th");
    if (!column) cell.scope = "row";
    else cell.className = "table__number";
    const inner = document.createElement("span");
    inner.className = "hostile";
    inner.textContent = text;
    cell.append(inner);
    row.append(cell);
  });
  return row;
}
