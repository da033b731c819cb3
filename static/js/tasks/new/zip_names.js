// Read the file names of a zip from the central directory at its end, without unpacking anything. No DOM.

const END = 0x06054b50;
const ENTRY = 0x02014b50;
/** The end-of-central-directory record, 22 bytes, and the longest comment after it. */
const MAX_END_BYTES = 22 + 0xffff;
/** The limit of the device's agent too: about 40,000 entries. */
const MAX_LIST_BYTES = 4 * 1024 ** 2;

/**
 * The file names in a zip, a File or Blob. Null if they cannot be read: the zip is damaged, is in zip64
 * format, has a directory over the limit, or has non-ASCII names that are not marked as UTF-8.
 */
export async function namesOf(file) {
  const tail = await bytesOf(file, Math.max(file.size - MAX_END_BYTES, 0), file.size);
  const end = endOf(tail);
  if (end < 0) return null;
  const listBytes = tail.getUint32(end + 12, true);
  const begin = file.size - tail.byteLength + end - listBytes;
  if (listBytes > MAX_LIST_BYTES || begin < 0) return null;
  return readList(await bytesOf(file, begin, begin + listBytes));
}

/** The names of Python programs, the possible entry points. */
export function programsOf(names) {
  return names.filter((name) => name.endsWith(".py") && !name.startsWith("__MACOSX/"));
}

/** The obvious entry point: the only program, or the outermost main.py or __main__.py. Empty if there is none. */
export function entryOf(names) {
  const programs = programsOf(names);
  if (programs.length === 1) return programs[0];
  const mains = programs.filter((name) => /(^|\/)(main|__main__)\.py$/.test(name));
  const depth = Math.min(...mains.map(depthOf));
  const outermost = mains.filter((name) => depthOf(name) === depth);
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
