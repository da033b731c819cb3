// The same data as a picture, as a table: for screen readers, and for who wants the numbers.

import { fill } from "../format.js";
import { micro, unitOfMicro } from "./text.js";

/** Rows of one table; all of them are in the profile's export. */
export const MOST_ROWS = 200;

/** Fill the table when it is first opened; `rows` yields arrays of texts, and of times as `{us}`. */
export function fillWhenOpened(details, { rows, count }) {
  const body = details.querySelector("tbody");
  const note = details.querySelector("[data-part='table-note']");
  const draw = () => {
    if (!details.open || body.childElementCount) return;
    const drawn = [];
    for (const cells of rows()) {
      if (drawn.length === MOST_ROWS) break;
      drawn.push(cells);
    }
    body.append(...withTimes(drawn).map(rowOf));
    note.hidden = count <= MOST_ROWS;
    note.textContent = fill(note.dataset.text, { shown: drawn.length, all: count });
  };
  body.replaceChildren();
  draw();
  details.ontoggle = draw;
}

/** The rows with all times of the table in one unit. */
function withTimes(rows) {
  const times = rows.flat().filter((cell) => typeof cell === "object");
  const unit = unitOfMicro(times.map(({ us }) => us));
  return rows.map((cells) => cells.map((cell) => (typeof cell === "object" ? micro(cell.us, unit) : cell)));
}

function rowOf(cells) {
  const row = document.createElement("tr");
  cells.forEach((text, place) => {
    const cell = document.createElement(place ? "td" : "th");
    if (!place) cell.scope = "row";
    else cell.className = "table__number";
    const inner = document.createElement("span");
    inner.className = "hostile";
    inner.textContent = text;
    cell.append(inner);
    row.append(cell);
  });
  return row;
}
