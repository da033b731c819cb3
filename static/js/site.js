// The script of every page: times in the user's time zone, keyboard shortcuts, groups with one Tab stop, forms
// that a double click sends once, the language, and menus that close on Escape and outside clicks.

import { keepRelativeTimes } from "./ago.js";
import { localizeTimes, storeTimeZone } from "./format.js";
import { keepOneStop } from "./roving.js";
import { bindShortcuts, isForInputMethod, startShortcuts } from "./shortcuts.js";

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

/** How long a form is not sent again, as by a double click, ms. */
const SENT_MS = 5_000;
let sent = { form: null, at: 0 };
window.addEventListener("pageshow", () => {
  sent = { form: null, at: 0 };
});
// at the document, so that forms that scripts handle come first
document.addEventListener("submit", (event) => {
  const { target: form, timeStamp: at } = event;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (form === sent.form && at < sent.at + SENT_MS) event.preventDefault();
  else sent = { form, at };
});

// scripts change the address, for example by filters and views
for (const next of document.querySelectorAll(".language [data-here]")) {
  next.form.addEventListener("submit", () => {
    next.value = location.pathname + location.search + location.hash;
  });
}

for (const menu of document.querySelectorAll("[data-menu]")) {
  document.addEventListener("click", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || isForInputMethod(event) || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}
