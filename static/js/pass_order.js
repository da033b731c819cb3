// The order of a profile's passes by the names of their files, as `profiles.opened.uploads` has it.

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

/** Files in the order of their passes: digits count as numbers, profile.json before profile-2.json. */
export function inOrderOfPasses(files) {
  const named = [...files].map((file) => [parts(file.name), file]);
  return named.sort(([a], [b]) => compare(a, b)).map(([, file]) => file);
}
