// The list of columns: which are shown, and in which order.

export class Chooser {
  /** list: the element to fill; table: with `columns`, `chosen`, `heads`, `choose(keys)` */
  constructor(list, table) {
    this.list = list;
    this.table = table;
    list.addEventListener("change", (event) => this.#onChange(event.target));
    list.addEventListener("click", (event) => this.#onClick(event.target));
    this.#fill();
  }

  #fill() {
    const { columns, chosen, words } = this.table;
    const rest = columns.filter(({ key }) => !chosen.includes(key)).map(({ key }) => key);
    this.list.replaceChildren(
      ...[...chosen, ...rest].map((key) => this.#line(columns.find((column) => column.key === key), chosen.includes(key))),
      button("reset", words.reset),
    );
  }

  #line(column, isChosen) {
    const { heads, words } = this.table;
    const { title, help } = heads[column.key] ?? { title: column.key, help: "" };
    const line = document.createElement("div");
    line.className = "chooser__line";
    const label = document.createElement("label");
    label.className = "chooser__choice";
    const box = document.createElement("input");
    box.type = "checkbox";
    box.value = column.key;
    box.checked = isChosen;
    box.disabled = Boolean(column.isFixed);
    const name = document.createElement("span");
    name.append(title);
    const about = document.createElement("span");
    about.className = "muted chooser__help";
    about.textContent = help;
    label.append(box, name, about);
    line.append(label);
    if (isChosen) line.append(button("up", "↑", `${words.move_left}: ${title}`, column.key), button("down", "↓", `${words.move_right}: ${title}`, column.key));
    return line;
  }

  #onChange(box) {
    const { chosen } = this.table;
    this.table.choose(box.checked ? [...chosen, box.value] : chosen.filter((key) => key !== box.value));
    this.#fill();
    this.list.querySelector(`[value="${box.value}"]`)?.focus();
  }

  #onClick(target) {
    const { act, key } = target.dataset ?? {};
    if (!act) return;
    if (act === "reset") this.table.choose(null);
    else this.table.choose(moved(this.table.chosen, key, act === "up" ? -1 : 1));
    this.#fill();
    this.list.querySelector(`[data-act="${act}"]${key ? `[data-key="${key}"]` : ""}`)?.focus();
  }
}

/** The keys with one of them moved by a number of places. */
export function moved(keys, key, by) {
  const from = keys.indexOf(key);
  const to = Math.min(Math.max(from + by, 0), keys.length - 1);
  const rest = keys.filter((each) => each !== key);
  rest.splice(to, 0, key);
  return rest;
}

function button(act, text, label = "", key = "") {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "button button--small";
  made.dataset.act = act;
  if (key) made.dataset.key = key;
  made.textContent = text;
  if (label) made.setAttribute("aria-label", label);
  return made;
}
