"use strict";
for (const table of document.querySelectorAll("table[data-sort]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.disabled = false;
    button.addEventListener("click", () => sort(table, heads, column));
  });
}
function sort(table, heads, column) {
  const head = heads[column];
  const isText = head.dataset.kind === "text";
  const isUp = head.ariaSort ? head.ariaSort === "descending" : isText;
  for (const other of heads) other.ariaSort = null;
  head.ariaSort = isUp ? "ascending" : "descending";
  const sign = isUp ? 1 : -1;
  const keyed = [...table.tBodies[0].rows].map((row) => [row.cells[column].dataset.key ?? row.cells[column].textContent, row]);
  keyed.sort(([a], [b]) => {
    if (isText) return sign * a.localeCompare(b);
    if (a === "" || b === "") return (a === "") - (b === "");
    return sign * (Number(a.replace("inf", "Infinity")) - Number(b.replace("inf", "Infinity")));
  });
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}
for (const field of document.querySelectorAll("input[data-filter]")) {
  const body = document.getElementById(field.dataset.filter).tBodies[0];
  field.closest("p").hidden = false;
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.cells[1].textContent.toLowerCase().includes(wanted);
  });
}
