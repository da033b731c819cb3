// The files of a run that are chosen or dropped: those that lie directly in one folder, and their order
// by passes, as `profiles.imports.uploads` has it.

const OF_A_RUN = /\.(json|svg)$/i;

/** What a chooser of folders holds: {folder, files}. Deeper folders are of other runs. */
export function ofChosenFolder(files) {
  const [folder = ""] = (files[0]?.webkitRelativePath ?? "").split("/");
  return { folder, files: [...files].filter((file) => isOfRun(file) && depthOf(file) === 2) };
}

/** The folder in a drop, if there is one and nothing else: a promise of {folder, files}, or null. */
export function ofDroppedFolder(transfer) {
  // what is dropped can be asked for only while the event lasts
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.());
  if (entries.length !== 1 || !entries[0]?.isDirectory) return null;
  return readFolder(entries[0]);
}

/** What a run is called whose files lie in a folder; MegEngine calls the files alike in each. */
export function nameIn(folder, file) {
  return folder && file ? `${folder}/${file.name.replace(/\.[^.]*$/, "")}` : "";
}

async function readFolder(entry) {
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    // a browser tells them by the hundred, and ends with none
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    const plain = some.filter((each) => each.isFile);
    files.push(...(await Promise.all(plain.map((each) => new Promise((resolve, reject) => each.file(resolve, reject))))));
  }
  return { folder: entry.name, files: files.filter(isOfRun) };
}

const isOfRun = (file) => OF_A_RUN.test(file.name);
const depthOf = (file) => file.webkitRelativePath.split("/").length;

/** Names without their ending, cut into texts and numbers. */
function parts(name) {
  return name
    .replace(/(?<=.)\.[^.]*$/, "")
    .split(/(\d{1,15})/)
    .map((part, i) => (i % 2 ? Number(part) : part));
}

function compare(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) {
    if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return a.length - b.length;
}

/** What the names of one run's passes have in common: `p` of `p.json`, `p-2.json` and `p (3).json`. */
function family(name) {
  return name
    .replace(/(?<=.)\.[^.]*$/, "")
    .replace(/\d+/g, "#")
    .replace(/([-_. (]*#\)?)+$/, "");
}

/** Files in the order of their passes: names that differ in numbers alone in the order of these, profile.json before
 * profile-2.json; all else as it was chosen, since the first is what is shown. */
export function inOrderOfPasses(files) {
  const families = new Map();
  for (const file of files) {
    const found = families.get(family(file.name)) ?? [];
    families.set(family(file.name), [...found, [parts(file.name), file]]);
  }
  return [...families.values()].flatMap((named) => named.sort(([a], [b]) => compare(a, b)).map(([, file]) => file));
}
