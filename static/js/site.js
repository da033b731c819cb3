// The script of every page: times in the user's time zone, keyboard shortcuts, groups with one Tab stop, and
// menus that close on Escape and outside clicks.

import { keepRelativeTimes } from "./ago.js";
import { localizeTimes, storeTimeZone } from "./format.js";
import { keepOneStop } from "./roving.js";
import { bindShortcuts, startShortcuts } from "./shortcuts.js";

// pages of share links set no cookie
if (!("shared" in document.documentElement.dataset)) storeTimeZone();
localizeTimes(document);
keepRelativeTimes();
startShortcuts();
// bound here and not in shortcuts.js, which help.js imports
bindShortcuts({ help: () => import("./palette/help.js").then(({ showShortcuts }) => showShortcuts()) });
if (document.querySelector("#palette")) {
  bindShortcuts({ palette: () => import("./palette/index.js").then(({ togglePalette }) => togglePalette()) });
}
for (const group of document.querySelectorAll("[data-roving]")) keepOneStop(group);

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
