// The script of every page: times in the user's time zone, and menus that close on Escape and outside clicks.

import { keepRelativeTimes } from "./ago.js";
import { localizeTimes } from "./format.js";
import { storeTimeZone } from "./zone.js";

storeTimeZone();
localizeTimes(document);
keepRelativeTimes();

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
