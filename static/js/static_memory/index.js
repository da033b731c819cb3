// The part of the page about a memory plan: its picture, and links to the operators of the table.

import { startPictures } from "../charts/show.js";
import { select } from "../profiles/result/selection.js";
import { staticMemoryPicture } from "./picture.js";

const section = document.querySelector("#static-memory");

startPictures(section, { "static-memory": staticMemoryPicture });

section.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-row]");
  // with a key held down the browser opens the link elsewhere, as anyone expects
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  select(Number(link.dataset.row), "static-memory");
});
