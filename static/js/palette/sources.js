// What the palette finds: entries {group, label, hint, run, isCurrent}.
//
// Actions and pages are the links and buttons of the open page, so that the palette offers what the user
// may do here; tasks, devices and options come from the API, operators from the data of the table.

import { getFragment, getJson } from "../requests.js";
import { taskNumber } from "./match.js";

const MOST_TASKS = 8;
const ACTIONS = "main :is(.title-row, .actions, .advice-lines, .bulk, [data-actions]) :is(a[href], button):not(.crumb a)";
const PAGES = ".header__nav a, .header .menu__item";

const go = (address) => () => location.assign(address);
const textOf = (element) => element.textContent.replace(/\s+/g, " ").trim();

/** Links and buttons of the page that do something now. */
export function pageEntries(words) {
  const usable = (element) => !element.disabled && !element.closest("[hidden], dialog, [popover]") && textOf(element).length > 1;
  const entryOf = (group) => (element) => {
    const note = element.querySelector(".export__note");
    const name = textOf(element).slice(0, note ? -textOf(note).length || undefined : undefined).trim();
    // "CSV" alone does not say what it does
    const menu = element.closest("main details.menu")?.querySelector("summary");
    return { group, label: menu ? `${textOf(menu)}: ${name}` : name, hint: note ? textOf(note) : "", run: () => element.click() };
  };
  const find = (selector, group) => [...document.querySelectorAll(selector)].filter(usable).map(entryOf(group));
  const language = document.querySelector(".language__button");
  return [
    ...find(ACTIONS, words.actions),
    ...find("#tabs a", words.views),
    ...find(PAGES, words.pages),
    ...(language ? [{ group: words.settings, label: `${words.language}: ${textOf(language)}`, hint: "language 语言", run: () => language.click() }] : []),
  ];
}

/** The colours of the site, which are also saved in the user's settings. */
export function themeEntries(choices, settings, login) {
  return choices.map(({ value, label, group, hint }) => ({ group, label, hint, run: () => setTheme(value, settings, login) }));
}

/** Show the page in a theme (`light`, `dark`, or an empty text for that of the system), and save it. */
async function setTheme(theme, settings, login) {
  const { documentElement: root } = document;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  document.querySelector("meta[name=color-scheme]").content = theme || "light dark";
  const { form } = (await getFragment(settings, { login })).querySelector("[name=theme]");
  form.elements.theme.value = theme;
  await fetch(settings, { method: "POST", body: new FormData(form), credentials: "same-origin" });
}

/** Tasks whose title or file name contains the query, or that have its number; without a query the newest. */
export async function findTasks(query, { group, urls, login }) {
  const number = taskNumber(query);
  const address = new URL(urls.tasks, location.href);
  address.searchParams.set("limit", String(MOST_TASKS));
  if (query) address.searchParams.set("search", query);
  const [found, { results }] = await Promise.all([
    number === null ? null : getJson(`${urls.tasks}${number}/`, { login }).catch(() => null),
    getJson(address.pathname + address.search, { login }),
  ]);
  const tasks = [found, ...results.filter(({ id }) => id !== found?.id)].filter(Boolean);
  return tasks.map((task) => ({
    group,
    label: `#${task.id} ${task.title || task.model_name}`,
    hint: [task.title && task.model_name, task.worker_name].filter(Boolean).join(" · "),
    run: go(urls.task.replace("0", task.id)),
  }));
}

export async function findDevices({ group, urls, login }) {
  const { results } = await getJson(`${urls.devices}?limit=200`, { login });
  return results.map(({ name }) => ({ group, label: name, hint: "", run: go(urls.device.replace("0", encodeURIComponent(name))) }));
}

/** Options of load_and_run: in the form of a new task the field, elsewhere the reference. */
export async function findOptions({ group, urls, login }) {
  const options = (await getJson(urls.options, { login })).filter(({ taken }) => taken);
  const { lang } = document.documentElement;
  return options.map(({ name, help }) => ({ group, label: name, hint: help[lang] ?? help.en, run: () => openOption(name, urls.reference) }));
}

function openOption(name, reference) {
  const field = document.querySelector(`#options [data-option="${CSS.escape(name)}"] :is(input, select, textarea)`);
  if (!field) {
    location.assign(`${reference}#${name}`);
    return;
  }
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  field.focus();
}

/** Operators of the open result: the table's own data, in which selecting one selects it everywhere. */
export async function findOperators(group) {
  const section = document.querySelector("#operator-table, .charts[data-operators]");
  if (!section) return [];
  const [{ loadOperators, shortName }, { select }] = await Promise.all([
    import("../profiles/operators.js"),
    import("../profiles/result/selection.js"),
  ]);
  const operators = await loadOperators(section);
  const open = (row) => {
    const workspace = document.querySelector("#workspace");
    if (workspace?.dataset.view !== "operators") document.querySelector("#tabs [data-view=operators]")?.click();
    select(row, "palette");
  };
  const rows = operators.names.map((_, row) => row).sort((a, b) => (operators.us[b] ?? -1) - (operators.us[a] ?? -1));
  return rows.map((row) => ({ group, label: shortName(operators, row), hint: `${operators.typeOf(row)} ${operators.names[row]}`, run: () => open(row) }));
}
