// The order of a profile's passes by the names of their files, as `profiles.imports.uploads` has it.

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
