// On every page: the reader's own time, and a user menu that closes by itself.

import { keepAgo } from "./ago.js";
import { localizeTimes } from "./format.js";
import { tellZone } from "./zone.js";

tellZone();
localizeTimes(document);
keepAgo();

for (const menu of document.querySelectorAll("[data-menu]")) {
  document.addEventListener("click", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}
