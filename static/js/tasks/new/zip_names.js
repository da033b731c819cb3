// What a zip holds, read from the list at its end; nothing is unpacked. Pure, but for `slice`.

const END = 0x06054b50;
const ENTRY = 0x02014b50;
/** the end's own 22 bytes and the longest comment behind them */
const MOST_END_BYTES = 22 + 0xffff;
/** some 40,000 entries; as the device, which takes no longer list */
const MOST_LIST_BYTES = 4 * 1024 ** 2;

/**
 * The names in a File or Blob; null if they cannot be told here: a damaged zip, a larger kind
 * (zip64), a list that is too long, or names in an encoding that the zip does not tell.
 */
export async function namesOf(file) {
  const tail = await bytesOf(file, Math.max(file.size - MOST_END_BYTES, 0), file.size);
  const end = endOf(tail);
  if (end < 0) return null;
  const listBytes = tail.getUint32(end + 12, true);
  const begin = file.size - tail.byteLength + end - listBytes;
  if (listBytes > MOST_LIST_BYTES || begin < 0) return null;
  return readList(await bytesOf(file, begin, begin + listBytes));
}

/** The programs among the names: what a run could begin with. */
export function programsOf(names) {
  return names.filter((name) => name.endsWith(".py") && !name.startsWith("__MACOSX/"));
}

/** The one program that is meant for sure: the only one, or the outermost main.py or __main__.py. */
export function entryOf(names) {
  const programs = programsOf(names);
  if (programs.length === 1) return programs[0];
  const mains = programs.filter((name) => /(^|\/)(main|__main__)\.py$/.test(name));
  const least = Math.min(...mains.map(depthOf));
  const outermost = mains.filter((name) => depthOf(name) === least);
  return outermost.length === 1 ? outermost[0] : "";
}

const depthOf = (name) => name.split("/").length;

async function bytesOf(file, begin, end) {
  return new DataView(await file.slice(begin, end).arrayBuffer());
}

function endOf(tail) {
  for (let at = tail.byteLength - 22; at >= 0; at -= 1) {
    if (tail.getUint32(at, true) === END) return at;
  }
  return -1;
}

function readList(list) {
  const names = [];
  for (let at = 0; at < list.byteLength; ) {
    if (at + 46 > list.byteLength || list.getUint32(at, true) !== ENTRY) return null;
    const length = list.getUint16(at + 28, true);
    const name = nameAt(list, at + 46, length);
    if (name === null) return null;
    names.push(name);
    at += 46 + length + list.getUint16(at + 30, true) + list.getUint16(at + 32, true);
  }
  return names;
}

function nameAt(list, at, length) {
  if (at + length > list.byteLength) return null;
  try {
    const name = new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(list.buffer, at, length));
    const isUtf8 = list.getUint16(at - 46 + 8, true) & 0x800;
    return isUtf8 || /^[\x00-\x7f]*$/.test(name) ? name : null;
  } catch {
    return null;
  }
}
