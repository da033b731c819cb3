// Folders that are chosen or dropped: the files of a run that lie directly in one.

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
