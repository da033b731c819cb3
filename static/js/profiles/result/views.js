// The views of the result: each tab has an address, and is fetched when it is first opened.

import { localizeTimes } from "../../format.js";
import { keepOneStop } from "../../roving.js";
import { isPlainClick } from "../../shortcuts.js";
import { onWhole } from "./printing.js";

/** Parameters of the address that belong to no view: they stay when another is opened. */
const SHARED = ["op", "q", "sort", "group", "constants", "timeline"];

/** root: `#workspace`; onOpen(panel, key): called each time a view is shown. */
export function startViews(root, { fetchFragment, announce, onOpen }) {
  const tabs = [...root.querySelectorAll(".tabs__tab[data-view]")];
  const box = root.querySelector("#views");
  const panels = new Map([...box.children].map((panel) => [panel.dataset.view, Promise.resolve(panel)]));
  const first = [...box.children].find((panel) => !panel.hidden).dataset.view;
  /** where the table that the server rendered is: its filters are told by no other address */
  let table = box.querySelector("#to-table") ? location.href : "";
  /** where it was, after it was dropped */
  let dropped = "";
  /** what the title begins with for a view */
  let prefix = "";

  function panelOf(tab) {
    const { view } = tab.dataset;
    if (!panels.has(view)) {
      // what a failed attempt left
      for (const panel of [...box.children]) if (panel.dataset.view === view) panel.remove();
      const panel = document.createElement("div");
      panel.className = "view";
      panel.dataset.view = view;
      panel.setAttribute("aria-busy", "true");
      box.append(panel);
      panels.set(view, load(tab.href, panel));
      panels.get(view).catch(() => {
        panels.delete(view);
      });
    }
    return panels.get(view);
  }

  /** Fill a panel. Scripts of a fragment do not run by themselves, so each is imported. */
  async function load(href, panel) {
    try {
      const fragment = await fetchFragment(withPart(href));
      const scripts = [...fragment.querySelectorAll("script[type=module][src]")].map(({ src }) => src);
      localizeTimes(fragment);
      panel.replaceChildren(fragment);
      for (const group of panel.querySelectorAll("[data-roving]")) keepOneStop(group);
      await Promise.all([...panel.querySelectorAll("link[rel=stylesheet]")].map(loaded));
      for (const src of scripts) (await import(src)).start?.(panel);
      panel.removeAttribute("aria-busy");
      return panel;
    } catch (error) {
      const note = document.createElement("p");
      note.className = "notice notice--error";
      note.setAttribute("role", "alert");
      note.textContent = root.dataset.failed;
      panel.replaceChildren(note);
      panel.removeAttribute("aria-busy");
      throw error;
    }
  }

  /** A phone has no room for all tabs. */
  const reveal = (tab) => tab.scrollIntoView({ block: "nearest", inline: "nearest" });

  async function show(tab) {
    for (const each of tabs) each.toggleAttribute("aria-current", false);
    tab.setAttribute("aria-current", "page");
    reveal(tab);
    const { view } = tab.dataset;
    const coming = panelOf(tab);
    for (const panel of box.children) panel.hidden = panel.dataset.view !== view;
    root.dataset.view = view;
    const title = document.title.slice(prefix.length);
    prefix = view === tabs[0].dataset.view ? "" : `${tab.textContent} · `;
    document.title = prefix + title;
    try {
      onOpen(await coming, view);
    } catch {
      // the panel says what failed; the next click tries again
    }
  }

  /** Show the view of a tab, at its address; resolves when it is there. */
  function go(tab) {
    const address = new URL((tab.dataset.view === "operators" && table) || tab.href);
    const now = new URLSearchParams(location.search);
    for (const name of SHARED) {
      if (now.has(name)) address.searchParams.set(name, now.get(name));
      else address.searchParams.delete(name);
    }
    if (address.href !== location.href) history.pushState(null, "", address);
    announce(tab.textContent);
    return show(tab);
  }

  root.querySelector("#tabs").addEventListener("click", (event) => {
    const tab = event.target.closest("[data-view]");
    if (!tab || !isPlainClick(event)) return;
    event.preventDefault();
    go(tab);
  });
  addEventListener("popstate", () => {
    if (dropped && withoutShared(location.href) === dropped) location.reload();
    const tab = tabs.find((each) => new URL(each.href).pathname === location.pathname);
    if (tab && tab.dataset.view !== root.dataset.view) show(tab);
  });
  // paper has all views
  onWhole(async () => {
    await Promise.allSettled(tabs.map(panelOf));
    for (const panel of box.children) panel.hidden = false;
    addEventListener("afterprint", () => {
      for (const panel of box.children) panel.hidden = panel.dataset.view !== root.dataset.view;
    }, { once: true });
  });
  root.dataset.view = first;
  reveal(tabs.find((tab) => tab.dataset.view === first));
  return {
    open: async (view) => go(tabs.find((tab) => tab.dataset.view === view)),
    /** Have the table that the server rendered replaced when the operators are opened. */
    dropTable: () => {
      panels.delete("operators");
      dropped = withoutShared(table);
      table = "";
    },
  };
}

/** The address without what all views share, such as the selected operator. */
function withoutShared(href) {
  const url = new URL(href);
  for (const name of SHARED) url.searchParams.delete(name);
  return url.href;
}

function withPart(href) {
  const url = new URL(href);
  url.searchParams.set("part", "1");
  return url.pathname + url.search;
}

/** A stylesheet is applied before what it styles is shown. */
function loaded(link) {
  if (link.sheet) return null;
  return new Promise((resolve) => {
    link.addEventListener("load", resolve, { once: true });
    link.addEventListener("error", resolve, { once: true });
  });
}
