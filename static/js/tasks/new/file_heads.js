// Inspect the first bytes of files before the upload, by the same rules as the server
// (agent/protocol/inputs and tasks/submission/contents.py). No DOM.
//
// Each function returns {code, ...values} for a file that cannot be used, with the server's error code,
// or the file's content: {arrays: [{name, dtype, shape}], isFortran}.

/** Bytes that are inspected; a JSON file is read as a whole. */
const HEAD_BYTES = 64 * 1024;
const JSON_LIMIT_BYTES = 8 * 1024 ** 2;
const MAX_HEADER_BYTES = 10_000;
const MAX_AXES = 7;
const MAX_JSON_INPUTS = 64;
const MAX_NAME_LENGTH = 200;

const BINARY_DTYPES = ["float32", "int32", "int16", "uint16", "int8", "uint8"];
const ALL_DTYPES = [...BINARY_DTYPES, "float16", "int64", "uint32", "bool"];
const JSON_DTYPES = { float32: "float32", float: "float32", int32: "int32", int: "int32", int8: "int8", uint8: "uint8" };
/** Numbers from here on are infinite as float32. */
const FLOAT32_LIMIT = 2 ** 128 - 2 ** 103;
/** Numbers between these can be given in JSON. */
const LIMITS = { float32: [-FLOAT32_LIMIT, FLOAT32_LIMIT], int32: [-(2 ** 31) - 1, 2 ** 31], int8: [-129, 128], uint8: [-1, 256] };
const KINDS = { b: "bool", i: "int", u: "uint", f: "float", c: "complex" };
const TEXT_KINDS = { S: "bytes", a: "bytes", U: "str", M: "datetime64", m: "timedelta64", V: "void" };

const MODEL_STARTS = ["MGBC", "packed_model", "mgb0001", "mgb0000a", "MGBS"];
/** Precedes a graph with test data, with the number of test cases. */
const TEST_CASE = "mgbtest0";
const TEST_CASE_BYTES = 12;
/** Identifier of FlatBuffers at byte 8, after the size of what follows and the offset of the root. */
const TAG = "mgv2";
/** Forms that end with a size and that many bytes of FlatBuffers: bytes before the weights, the last 8 of which are their size. */
const SIZED_WEIGHTS = { MGBC: 24, MGBS: 16 };
/** load_and_run reads no shorter file. */
const SHORTEST_MODEL = 16;
/** With so many line ends, that all are CRLF is no coincidence. */
const MANY_LINE_ENDS = 4;
/** Files that are mistaken for models, by their first bytes; the error is `model_is_<kind>`. */
const OTHERS = [
  ["version https://git-lfs", "lfs_pointer"],
  ["PK\x03\x04", "zip"],
  ["\x80\x02", "pickle"],
  ["\x80\x03", "pickle"],
  ["\x80\x04", "pickle"],
  ["\x80\x05", "pickle"],
  ["\x93NUMPY", "npy"],
  ["\x89HDF", "hdf5"],
  ["\x1f\x8b", "gzip"],
  ["\x89PNG", "picture"],
  ["\xff\xd8\xff", "picture"],
  ["GIF8", "picture"],
  ["\x7fELF", "executable"],
  ["{", "json"],
];

/** Inspect a data file. kind: "binary" for a compiled load_and_run, which reads fewer dtypes. */
export async function inspectData(file, kind) {
  const suffix = /\.[^.]*$/.exec(file.name.toLowerCase())?.[0] ?? "";
  if (suffix === ".json") {
    if (file.size > JSON_LIMIT_BYTES) return { code: "input_json_large", limit_mib: JSON_LIMIT_BYTES / 1024 ** 2 };
    return readJson(await file.arrayBuffer(), kind);
  }
  const head = await bytesOf(file);
  if (suffix === ".ppm" || suffix === ".pgm") return readPicture(head, file.size);
  return readNpy(head, file.size, kind);
}

/** Inspect a model. Returns {} if it is one. */
export async function inspectModel(file) {
  return readModel(await bytesOf(file), file.size);
}

/** Inspect a script's program, a .py file or a .zip. Returns {} if it is one. */
export async function inspectProgram(file) {
  return readProgram(file.name, await bytesOf(file));
}

// -- arrays -----------------------------------------------------------------------------------------

/** Read the header of an .npy file. head: the first bytes; size: of the whole file, bytes. */
export function readNpy(head, size, kind) {
  const start = latin(head.subarray(0, 8));
  if (!start.startsWith("\x93NUMPY")) {
    if (start.startsWith("PK")) return { code: "input_zip" };
    return { code: start[0] === "\x80" ? "input_pickled" : "input_not_npy" };
  }
  const [major, minor] = [head[6], head[7]];
  if (head.length < 10) return { code: "input_header" };
  if (![1, 2, 3].includes(major) || minor !== 0) return { code: "input_version", version: `${major}.${minor}` };
  const width = major === 1 ? 2 : 4;
  const begin = 8 + width;
  if (head.length < begin) return { code: "input_header" };
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const length = width === 2 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (length > MAX_HEADER_BYTES) return { code: "input_header_long", length, limit: MAX_HEADER_BYTES };
  if (head.length < begin + length) return { code: "input_header" };
  const header = readHeader(latin(head.subarray(begin, begin + length)));
  return header === null ? { code: "input_header" } : checkArray(header, begin + length, size, kind);
}

function checkArray({ descr, fortran, shape }, offset, size, kind) {
  const type = readType(descr);
  if (type === null) return { code: "input_header" };
  if (type.code) return type;
  const { letter, dtype, bytes } = type;
  if (!ALL_DTYPES.includes(dtype)) {
    return { code: "input_no_type", dtype, instead: "fc".includes(letter) ? "float32" : "int32" };
  }
  if (kind === "binary" && !BINARY_DTYPES.includes(dtype)) {
    return { code: "input_dtype_not_here", dtype, choices: BINARY_DTYPES.join(", ") };
  }
  const problem = checkShape(shape) ?? checkSize(`${dtype} ${braces(shape)}`, BigInt(offset) + product(shape) * BigInt(bytes), size);
  return problem ?? { arrays: [{ name: "", dtype, shape: shape.map(Number) }], isFortran: fortran && shape.length > 1 };
}

/** Parse a header: {descr, fortran, shape}, shape as BigInts. Null if numpy would not write it. */
function readHeader(text) {
  const fields = new Map();
  let rest = /^\s*\{([\s\S]*)\}\s*$/.exec(text)?.[1].trim();
  if (rest === undefined) return null;
  while (rest) {
    const key = /^(['"])(\w+)\1\s*:\s*/.exec(rest);
    const value = key && readValue(rest.slice(key[0].length));
    if (!value) return null;
    fields.set(key[2], value.value);
    rest = value.rest.replace(/^\s*,?\s*/, "");
  }
  const shape = fields.get("shape");
  const fortran = fields.get("fortran_order");
  if (fields.size !== 3 || !fields.has("descr") || !Array.isArray(shape) || typeof fortran !== "boolean") return null;
  return { descr: fields.get("descr"), fortran, shape };
}

/** Parse the Python literal at the start of `text`: {value, rest}. A list is a structured dtype. */
function readValue(text) {
  const string = /^(['"])((?:(?!\1)[^\\])*)\1/.exec(text);
  if (string) return { value: string[2], rest: text.slice(string[0].length) };
  const truth = /^(True|False)\b/.exec(text);
  if (truth) return { value: truth[1] === "True", rest: text.slice(truth[0].length) };
  const tuple = /^\(\s*((?:\d+L?\s*,\s*)*(?:\d+L?\s*)?)\)/.exec(text);
  if (tuple && !/^\d+L?$/.test(tuple[1].trimEnd())) {
    const numbers = tuple[1].split(",").map((number) => number.trim().replace("L", "")).filter(Boolean);
    return { value: numbers.map(BigInt), rest: text.slice(tuple[0].length) };
  }
  return text.startsWith("[") ? readList(text) : null;
}

function readList(text) {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "[") depth += 1;
    if (text[at] === "]") depth -= 1;
    if (depth === 0) return { value: { isList: true }, rest: text.slice(at + 1) };
  }
  return null;
}

/** Parse a dtype in numpy's short form, such as "<f4": {letter, dtype, bytes}, {code} if it is not numeric, or null. */
function readType(descr) {
  if (descr.isList) return { code: "input_structured" };
  const [, letter, digits] = /^[<>|=]?([a-zA-Z?])(\d*)(?:\[\w+\])?$/.exec(descr) ?? [];
  if (!letter) return null;
  if (letter === "O") return { code: "input_pickled" };
  if (letter === "?") return { letter: "b", dtype: "bool", bytes: 1 };
  const bytes = Number(digits);
  if (letter in TEXT_KINDS) return { code: "input_not_numbers", dtype: `${TEXT_KINDS[letter]}${textBits(letter, bytes)}` };
  if (!(letter in KINDS) || !bytes) return null;
  return { letter, dtype: letter === "b" ? "bool" : `${KINDS[letter]}${bytes * 8}`, bytes };
}

const textBits = (letter, bytes) => ("Mm".includes(letter) || !bytes ? "" : bytes * (letter === "U" ? 32 : 8));

function checkShape(shape) {
  if (!shape.length) return { code: "input_no_axes" };
  if (shape.length > MAX_AXES) return { code: "input_many_axes", axes: shape.length, limit: MAX_AXES };
  return shape.some((axis) => axis === 0n) ? { code: "input_no_numbers", shape: braces(shape) } : null;
}

function checkSize(promise, expected, size) {
  if (BigInt(size) < expected) return { code: "input_cut_short", promise, wanted: String(expected), size };
  return BigInt(size) > expected ? { code: "input_trailing", promise, extra: String(BigInt(size) - expected) } : null;
}

const product = (shape) => shape.reduce((size, axis) => size * axis, 1n);
export const braces = (shape) => `{${shape.join(",")}}`;

// -- pictures ---------------------------------------------------------------------------------------

const COMMENT = "#[^\\n\\r]*[\\n\\r]";
const GAP = `(?:[ \\t\\n\\v\\f\\r]|${COMMENT})+`;
const PICTURE = new RegExp(`^P([56])${GAP}(\\d{1,9})${GAP}(\\d{1,9})${GAP}(\\d{1,9})(?:${COMMENT}|[ \\t\\n\\v\\f\\r])`);

/** Read the header of a binary PPM or PGM with 8 bits per sample, which load_and_run reads as uint8 {1,h,w,c}. */
function readPicture(head, size) {
  const header = PICTURE.exec(latin(head));
  if (!header) return { code: "input_picture" };
  const [width, height, max] = header.slice(2).map(BigInt);
  if (max < 1n || max > 255n) return { code: "input_picture_depth", most: Number(max) };
  const shape = [1n, height, width, header[1] === "6" ? 3n : 1n];
  const problem = checkShape(shape) ?? checkSize(`uint8 ${braces(shape)}`, BigInt(header[0].length) + product(shape), size);
  return problem ?? { arrays: [{ name: "", dtype: "uint8", shape: shape.map(Number) }], isFortran: false };
}

// -- JSON -------------------------------------------------------------------------------------------

/** Read load_and_run's JSON format: an object {shape, type, raw} for each input, by name. */
function readJson(content, kind) {
  let text, inputs;
  try {
    // leaves out a byte-order mark
    text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    inputs = JSON.parse(text);
  } catch (error) {
    return { code: "input_json", problem: error.message };
  }
  const { twice, decimal } = readKeys(text);
  if (twice !== undefined) return { code: "input_json_twice", input: twice };
  if (!isObject(inputs)) return { code: "input_json", problem: "Expected `object`" };
  const names = Object.keys(inputs);
  if (!names.length || names.length > MAX_JSON_INPUTS) {
    return { code: "input_json_count", count: names.length, limit: MAX_JSON_INPUTS };
  }
  const arrays = [];
  for (const name of names) {
    const array = readEntry(name, inputs[name], kind, decimal.has(name));
    if (array.code) return array;
    arrays.push(array);
  }
  return { arrays, isFortran: false };
}

const KEY_END = /[ \t\r\n]*:/y;
const DECIMAL_LIST = /[ \t\r\n]*\[[^\]]*[.eE]/y;

/**
 * Read from a valid JSON text what JSON.parse leaves out: {twice, decimal}, the first key that an object repeats
 * (undefined for none), and the names of the inputs that have a number such as 2.0 or 2e0 in their shape.
 */
function readKeys(text) {
  const objects = [];
  const decimal = new Set();
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "{") objects.push({ keys: new Set(), last: "" });
    if (text[at] === "}") objects.pop();
    if (text[at] !== '"') continue;
    const begin = at;
    for (at += 1; text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
    KEY_END.lastIndex = at + 1;
    if (!KEY_END.test(text)) continue;
    const key = JSON.parse(text.slice(begin, at + 1));
    const object = objects.at(-1);
    if (object.keys.has(key)) return { twice: key, decimal };
    object.keys.add(key);
    object.last = key;
    DECIMAL_LIST.lastIndex = KEY_END.lastIndex;
    if (objects.length === 2 && key === "shape" && DECIMAL_LIST.test(text)) decimal.add(objects[0].last);
  }
  return { decimal };
}

/** Not printable in the sense of Python: control, format and unassigned characters, and all spaces but one. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/** isDecimal: whether a number of the shape is written with a point or an exponent */
function readEntry(name, entry, kind, isDecimal) {
  const isEntry = isObject(entry) && ["shape", "type", "raw"].every((key) => Object.hasOwn(entry, key));
  if (!isEntry) return { code: "input_json", problem: `$.${name}` };
  const isSplit = kind === "binary" && /[:;]/.test(name);
  if (!name || [...name].length > MAX_NAME_LENGTH || UNPRINTABLE.test(name) || isSplit) {
    return { code: "input_json_name", input: JSON.stringify(name.slice(0, 100)), limit: MAX_NAME_LENGTH };
  }
  if (typeof entry.type !== "string") return { code: "input_json", problem: `$.${name}.type` };
  const isList = Array.isArray(entry.shape) && entry.shape.every((axis) => typeof axis === "number");
  const hasManyAxes = isList && entry.shape.length > MAX_AXES;
  if (!hasManyAxes && !(isList && !isDecimal && entry.shape.every((axis) => Number.isInteger(axis) && axis >= 0))) {
    return { code: "input_json_shape", input: name };
  }
  if (!Object.hasOwn(JSON_DTYPES, entry.type)) {
    return { code: "input_json_type", input: name, type: entry.type.slice(0, 40), kinds: Object.keys(JSON_DTYPES).join(", ") };
  }
  const dtype = JSON_DTYPES[entry.type];
  const problem = checkShape(hasManyAxes ? entry.shape.map(() => 1n) : entry.shape.map(BigInt));
  if (problem) return problem;
  const expected = entry.shape.reduce((size, axis) => size * axis, 1);
  const isFlat = Array.isArray(entry.raw) && entry.raw.every((number) => typeof number === "number");
  if (!isFlat || entry.raw.length !== expected) return { code: "input_json_numbers", input: name, wanted: expected };
  return checkNumbers(entry.raw, dtype, name) ?? { name, dtype, shape: entry.shape };
}

function checkNumbers(numbers, dtype, name) {
  const [low, high] = LIMITS[dtype];
  if (!numbers.every((x) => low < x && x < high)) return { code: "input_json_range", input: name, dtype };
  return dtype === "float32" || numbers.every(Number.isInteger) ? null : { code: "input_json_fraction", input: name, dtype };
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// -- models and programs ----------------------------------------------------------------------------

/** Returns {} if the first bytes are those of a MegEngine model (tasks/submission/model_heads.py). */
export function readModel(head, size) {
  const offset = graphOffset(head);
  const code = isModel(head) ? "" : otherCode(head, size);
  if (code) return { code };
  const hasSize = latin(head.subarray(offset + 8, offset + 12)) === TAG;
  const end = hasSize ? offset + 4 + new DataView(head.buffer, head.byteOffset + offset).getUint32(0, true) : 0;
  if (isChanged(head, hasSize ? size - end : null)) return { code: "model_changed" };
  const wanted = Math.max(end || leastSize(head), SHORTEST_MODEL);
  return size < wanted ? { code: "model_cut_short", size, wanted } : {};
}

/** How long a model with sized weights is at least; 0 for other forms. The size of the graph follows the weights. */
function leastSize(head) {
  const start = graphOffset(head);
  const prefix = SIZED_WEIGHTS[latin(head.subarray(start, start + 4))];
  if (!prefix) return 0;
  const weights = start + prefix;
  if (head.length < weights) return weights;
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const graph = weights + Number(view.getBigUint64(weights - 8, true));
  return graph + 4 + (graph + 4 <= head.length ? view.getUint32(graph, true) : 0);
}

const graphOffset = (head) => (latin(head.subarray(0, 8)) === TEST_CASE ? TEST_CASE_BYTES : 0);

function isModel(head) {
  const start = latin(head.subarray(graphOffset(head)).subarray(0, 12));
  return start.slice(8) === TAG || MODEL_STARTS.some((magic) => start.startsWith(magic));
}

/** The error of what is no model; empty if too little is left to tell. */
function otherCode(head, size) {
  const start = latin(head.subarray(0, 32));
  if (start.includes(TAG)) return "model_changed";
  const [, kind] = OTHERS.find(([magic]) => start.startsWith(magic)) ?? [];
  if (kind) return `model_is_${kind}`;
  if (/^[ \t\r\n]*<(?:!doctype html|html)/i.test(latin(head))) return "model_is_web_page";
  if (size < SHORTEST_MODEL) return "";
  return isText(head) ? "model_is_text" : "model_unknown";
}

/**
 * Whether a program took the model for text, and changed its line ends or its encoding.
 * extra: how many bytes the file is longer than its header says; null if the header does not tell its size.
 */
function isChanged(head, extra) {
  if (extra === 0) return false;
  const text = latin(head);
  const lineEnds = text.split("\r\n").length - 1;
  if (lineEnds === text.split("\n").length - 1 && (lineEnds >= MANY_LINE_ENDS || lineEnds === extra)) return true;
  return text.includes("\xef\xbf\xbd") && isUtf8(head);
}

function readProgram(name, head) {
  const start = latin(head.subarray(0, 32));
  if (isModel(head)) return { code: "script_is_model" };
  if (/\.zip$/i.test(name)) {
    if (start.startsWith("PK\x05\x06")) return { code: "script_zip_empty" };
    return start.startsWith("PK\x03\x04") ? {} : { code: "script_not_zip" };
  }
  if (start.startsWith("PK\x03\x04") || start.startsWith("PK\x05\x06")) return { code: "script_is_zip" };
  return isText(head) ? {} : { code: "script_not_text" };
}

/** Whether the bytes can be Python source: UTF-8, or the encoding declared in the first two lines. */
function isText(head) {
  if (head.includes(0)) return false;
  if (latin(head).split("\n", 2).some((line) => /^[ \t\f]*#.*?coding[:=][ \t]*[-_.a-zA-Z0-9]+/.test(line))) return true;
  return isUtf8(head);
}

/** Whether the bytes are UTF-8; they may end within a character. */
function isUtf8(head) {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    return true;
  } catch {
    return false;
  }
}

async function bytesOf(file) {
  return new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
}

function latin(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return text;
}
