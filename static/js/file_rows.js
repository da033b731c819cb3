// The rows for input data in the form: a file and the variable that it feeds.

/** What the variable is probably called: the file's name without its suffix. */
export function stemOf(name) {
  return name.replace(/\.(npy|json)$/i, "");
}

const list = document.getElementById("data-rows");
const template = document.getElementById("data-row");
let made = 0;

/** Add a row, with a File if there is one already. Returns the row. */
export function addRow(file = null) {
  made += 1;
  const row = template.content.cloneNode(true).firstElementChild;
  const chooser = row.querySelector("[name=data-file]");
  const input = row.querySelector("[name=data-input]");
  const error = row.querySelector(".data-row__error");
  error.id = `data-error-${made}`;
  for (const [element, label, id] of [
    [chooser, row.querySelectorAll("label")[0], `data-file-${made}`],
    [input, row.querySelectorAll("label")[1], `data-input-${made}`],
  ]) {
    element.id = label.htmlFor = id;
    element.setAttribute("aria-describedby", error.id);
  }
  chooser.addEventListener("change", () => propose(chooser, input));
  row.querySelector(".data-row__remove").addEventListener("click", () => {
    row.remove();
    document.getElementById("add-data").focus();
  });
  list.append(row);
  if (file) give(chooser, file);
  return row;
}

/** Put a file that was dropped into a chooser. */
export function give(chooser, file) {
  const carrier = new DataTransfer();
  carrier.items.add(file);
  chooser.files = carrier.files;
  chooser.dispatchEvent(new Event("change", { bubbles: true }));
}

/** What the rows hold: [{row, file or null, input}]. */
export function readRows() {
  return [...list.querySelectorAll(".data-row")].map((row) => ({
    row,
    file: row.querySelector("[name=data-file]").files[0] ?? null,
    input: row.querySelector("[name=data-input]").value.trim(),
  }));
}

/** Fill in the stem unless the reader typed something else. */
function propose(chooser, input) {
  const file = chooser.files[0];
  if (!file) return;
  if (!input.value || input.value === input.dataset.proposed) input.value = stemOf(file.name);
  input.dataset.proposed = stemOf(file.name);
}

/** Let files be dropped on `area`; a drop beside it must not open the file instead of the page. */
export function acceptDrops(area, onFiles) {
  for (const name of ["dragenter", "dragover"]) {
    area.addEventListener(name, (event) => {
      event.preventDefault();
      area.classList.add("drop--over");
    });
  }
  for (const name of ["dragleave", "drop"]) {
    area.addEventListener(name, () => area.classList.remove("drop--over"));
  }
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) onFiles([...event.dataTransfer.files]);
  });
}
