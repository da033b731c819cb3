// The part of the result page about a static memory plan: its picture, and links that select operators.

import { startPictures } from "../charts/show.js";
import { select } from "../profiles/result/selection.js";
import { staticMemoryPicture } from "./picture.js";

const section = document.querySelector("#static-memory");

startPictures(section, { "static-memory": staticMemoryPicture });

section.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-row]");
  // with a modifier key the browser opens the link in a new tab or window
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  select(Number(link.dataset.row), "static-memory");
});
