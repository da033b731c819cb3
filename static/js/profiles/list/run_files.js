// The profile files of a run: read them from a chosen or dropped folder, and sort them by pass, as
// `profiles.imports.uploads` does.

const OF_A_RUN = /\.(json|svg)$/i;

/** The folder and its files in a folder chooser: {folder, files}. Subfolders belong to other runs and are left out. */
export function readChosenFolder(files) {
  const [folder = ""] = (files[0]?.webkitRelativePath ?? "").split("/");
  return { folder, files: [...files].filter((file) => isOfRun(file) && depthOf(file) === 2) };
}

/** A promise of {folder, files} if a single folder was dropped, otherwise null. */
export function readDroppedFolder(transfer) {
  // the items can be read only during the drop event
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.());
  if (entries.length !== 1 || !entries[0]?.isDirectory) return null;
  return readFolder(entries[0]);
}

/** The proposed name of a run; it contains the folder, because MegEngine uses the same file names in every folder. */
export function nameIn(folder, file) {
  return folder && file ? `${folder}/${file.name.replace(/\.[^.]*$/, "")}` : "";
}

async function readFolder(entry) {
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    // browsers return entries in batches, and an empty batch at the end
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!batch.length) break;
    const fileEntries = batch.filter((child) => child.isFile);
    files.push(...(await Promise.all(fileEntries.map((child) => new Promise((resolve, reject) => child.file(resolve, reject))))));
  }
  return { folder: entry.name, files: files.filter(isOfRun) };
}

const isOfRun = (file) => OF_A_RUN.test(file.name);
const depthOf = (file) => file.webkitRelativePath.split("/").length;

/** Split a name without its suffix into alternating texts and numbers, for natural sorting. */
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

/** A name without the numbers at its end, such as ` (#)`. A regular expression that is anchored at the end takes long for many separators. */
function withoutNumbers(name) {
  let end = name.length;
  for (;;) {
    const numberAt = name[end - 1] === ")" ? end - 2 : end - 1;
    if (name[numberAt] !== "#") return name.slice(0, end);
    end = numberAt;
    while (end > 0 && "-_. (".includes(name[end - 1])) end -= 1;
  }
}

/** The common name of the passes of one run: `p` of `p.json`, `p-2.json` and `p (3).json`. */
function family(name) {
  return withoutNumbers(name.replace(/(?<=.)\.[^.]*$/, "").replace(/\d+/g, "#"));
}

/**
 * Sort files by pass: names that differ only in a number by this number, profile.json before
 * profile-2.json. Otherwise the order of selection stays, because the first file is shown first.
 */
export function sortByPass(files) {
  const families = new Map();
  for (const file of files) {
    const members = families.get(family(file.name)) ?? [];
    families.set(family(file.name), [...members, [parts(file.name), file]]);
  }
  return [...families.values()].flatMap((members) => members.sort(([a], [b]) => compare(a, b)).map(([, file]) => file));
}
