// Read the inputs of a model from its file, and compare them with what the form gives. No DOM.
//
// A model in MegEngine's default dump format ("mgv2") is a FlatBuffer: operators as tables between
// their weights. Only the tables are read, page by page, so a file of any size takes little memory. The
// constants name slots of the tables in MegEngine's src/serialization/fbs/schema_v2.fbs.

import { braces } from "./file_heads.js";

const PAGE_BYTES = 16 * 1024;
/** Pages in memory, and the most that are read of one file. */
const MAX_KEPT = 256;
const MAX_PAGES = 16_384;
const MAX_INPUTS = 1000;
const MAX_AXES = 7;
const MAX_TEXT_BYTES = 1024;

const TAG = "mgv2";
/** Precedes a graph with test data; 12 bytes with the number of test cases. */
const TEST_CASE = "mgbtest0";
const MODEL = { operators: 8, tensors: 10 };
const OPERATOR = { type: 4, outputs: 20, tensors: 26 };
const TENSOR = { name: 4, shape: 6, dtype: 10 };
const DTYPE = { type: 4 };
/** The operator that copies an input to the device. */
const INPUT_TYPE = "Host2DeviceCopy";

/** Names of DTypeEnum; numpy's names for what a file can hold. */
const DTYPES = [
  "float32", "uint8", "int8", "int16", "int32", "IntB1", "IntB2", "IntB4", "Byte", "float16", "UintB4", "Quantized8Asymm",
  "QuantizedS32", "QuantizedS8", "Quantized4Asymm", "QuantizedS4", "QuantizedS16", "BFloat16", "bool", "uint16", "QuantizedS1",
];
/** Types that the device compares with the model's (agent/protocol/input_rules.py). */
const COMPARED = ["float32", "int32", "int16", "uint16", "int8", "uint8", "float16", "int64", "uint32", "bool"];

/**
 * Read the inputs of a model: {inputs: [{name, dtype, shape}]}, {isOtherFormat: true} for another format, or
 * {isUnreadable: true} for a damaged or an unusually large one.
 *
 * read(begin, end): returns these bytes of the file as a Uint8Array
 */
export function readInputs(read, size) {
  try {
    const tables = new Tables(read, size);
    const start = tables.text(0, TEST_CASE.length) === TEST_CASE ? 12 : 0;
    if (tables.text(start + 8, TAG.length) !== TAG) return { isOtherFormat: true };
    return { inputs: inputsOf(tables, tables.indirect(start + 4)) };
  } catch (error) {
    if (error instanceof RangeError) return { isUnreadable: true };
    throw error;
  }
}

function inputsOf(tables, model) {
  const inputs = [];
  const names = tables.vector(model, MODEL.tensors);
  for (const operator of tables.tables(model, MODEL.operators)) {
    if (tables.string(operator, OPERATOR.type) !== INPUT_TYPE) continue;
    const [tensor] = tables.tables(operator, OPERATOR.tensors);
    const name = tensor === undefined ? "" : tables.string(tensor, TENSOR.name);
    // the name that load_and_run gives the variable
    const output = tables.vector(operator, OPERATOR.outputs);
    const variable = output.length ? tables.uint32(output.at) : names.length;
    const loaded = variable < names.length ? tables.string(tables.indirect(names.at + 4 * variable), TENSOR.name) : "";
    if (!name || (loaded && loaded !== name) || inputs.length >= MAX_INPUTS) throw new RangeError("inputs");
    inputs.push({ name, dtype: dtypeOf(tables, tensor), shape: shapeOf(tables, tensor) });
  }
  return inputs;
}

function dtypeOf(tables, tensor) {
  const at = tables.field(tensor, TENSOR.dtype);
  const type = at ? tables.field(tables.indirect(at), DTYPE.type) : 0;
  const dtype = DTYPES[type ? tables.view(type, 1).getUint8(0) : 0];
  if (!dtype) throw new RangeError("dtype");
  return dtype;
}

function shapeOf(tables, tensor) {
  const axes = tables.vector(tensor, TENSOR.shape);
  if (axes.length > MAX_AXES) throw new RangeError("shape");
  return Array.from({ length: axes.length }, (_, axis) => tables.uint32(axes.at + 4 * axis));
}

/** Tables of a FlatBuffer in a file. Every method throws RangeError for a position outside the file. */
class Tables {
  constructor(read, size) {
    this.read = read;
    this.size = size;
    this.pages = new Map();
    this.readPages = 0;
    this.texts = new Map();
  }

  view(at, length) {
    if (at < 0 || at + length > this.size) throw new RangeError("position");
    const begin = at - (at % PAGE_BYTES);
    const bytes = at + length > begin + PAGE_BYTES ? this.#read(at, at + length) : this.#page(begin).subarray(at - begin);
    return new DataView(bytes.buffer, bytes.byteOffset, length);
  }

  #page(begin) {
    let page = this.pages.get(begin);
    if (!page) {
      page = this.#read(begin, Math.min(begin + PAGE_BYTES, this.size));
      if (this.pages.size >= MAX_KEPT) this.pages.delete(this.pages.keys().next().value);
      this.pages.set(begin, page);
    }
    return page;
  }

  #read(begin, end) {
    this.readPages += 1;
    const bytes = this.readPages > MAX_PAGES ? null : this.read(begin, end);
    if (bytes?.length !== end - begin) throw new RangeError("page");
    return bytes;
  }

  uint32(at) {
    return this.view(at, 4).getUint32(0, true);
  }

  /** The position that the offset at `at` refers to. */
  indirect(at) {
    return at + this.uint32(at);
  }

  /** The position of a field of a table; 0 if the table does not have it. */
  field(table, slot) {
    const fields = table - this.view(table, 4).getInt32(0, true);
    if (slot >= this.view(fields, 2).getUint16(0, true)) return 0;
    const offset = this.view(fields + slot, 2).getUint16(0, true);
    return offset && table + offset;
  }

  /** A vector of 4-byte elements: {at, length}. */
  vector(table, slot) {
    const field = this.field(table, slot);
    if (!field) return { at: 0, length: 0 };
    const at = this.indirect(field);
    const length = this.uint32(at);
    if (at + 4 + 4 * length > this.size) throw new RangeError("vector");
    return { at: at + 4, length };
  }

  /** The positions of a vector's tables. */
  *tables(table, slot) {
    const { at, length } = this.vector(table, slot);
    for (let i = 0; i < length; i += 1) yield this.indirect(at + 4 * i);
  }

  /** A string of a table; equal strings, such as types, are stored once. */
  string(table, slot) {
    const field = this.field(table, slot);
    if (!field) return "";
    const at = this.indirect(field);
    if (!this.texts.has(at)) this.texts.set(at, this.text(at + 4, this.uint32(at)));
    return this.texts.get(at);
  }

  text(at, length) {
    if (length > MAX_TEXT_BYTES) throw new RangeError("text");
    return new TextDecoder().decode(this.view(at, Math.min(length, this.size - at)));
  }
}

/**
 * Compare what is given with the model's inputs: null if it matches; {code, isProblem, ...values} otherwise.
 *
 * given: {name, dtype, shape, isLiteral}; dtype "" and shape null are the model's own.
 * batch: the length of the first axis that an option sets, or 0
 */
export function compareInput({ name, dtype, shape, isLiteral = false }, inputs, batch = 0) {
  const input = inputs.find((candidate) => candidate.name === name);
  if (!input) {
    return { code: inputs.length ? "no_such_input" : "no_inputs", isProblem: true, input: name, inputs: listOf(inputs) };
  }
  if (dtype && dtype !== input.dtype && COMPARED.includes(input.dtype)) {
    const code = isLiteral && input.dtype === "float32" ? "integers_for_float" : "other_dtype";
    return { code, isProblem: true, input: name, dtype, expected: input.dtype };
  }
  if (shape === null || isSameShape(shape, input.shape, batch)) return null;
  return { code: "other_shape", isProblem: false, input: name, expected: braces(input.shape) };
}

/** The inputs that something may be meant for: those that match it in type and shape first. */
export function candidatesFor({ dtype, shape }, inputs) {
  const misfit = (input) => (dtype && dtype !== input.dtype ? 2 : 0) + (shape && !isSameShape(shape, input.shape, 0) ? 1 : 0);
  return [...inputs].sort((a, b) => misfit(a) - misfit(b));
}

/** The type of numbers in load_and_run's syntax (agent/protocol/inputs/literals.py). */
export const literalDtype = (text) => (text.includes(".") ? "float32" : "int32");

/** A shape as typed, "1,3,8,8"; null if it is empty or no shape. */
export function parseShape(text) {
  const bare = text.replace(/^[\s{}[\]()]+|[\s{}[\]()]+$/g, "");
  const axes = bare.split(/[,x×*]/).map((axis) => axis.trim());
  return axes.every((axis) => /^\d{1,11}$/.test(axis)) ? axes.map(Number) : null;
}

/** The shape of numbers in the same syntax, where brackets add an axis; null if they are no numbers. */
export function literalShape(text) {
  const shape = [];
  try {
    for (let part = JSON.parse(`[${text}]`); Array.isArray(part); [part] = part) shape.push(part.length);
  } catch {
    return null;
  }
  return shape;
}

/** With a batch size the device sets the first axis of every input to it. */
function isSameShape(shape, expected, batch) {
  const from = batch ? 1 : 0;
  return shape.length === expected.length && shape.slice(from).every((axis, i) => axis === expected[i + from]);
}

const MAX_LISTED = 8;

function listOf(inputs) {
  const texts = inputs.slice(0, MAX_LISTED).map(({ name, dtype, shape }) => `${name} ${dtype} ${braces(shape)}`);
  return texts.join(", ") + (inputs.length > MAX_LISTED ? ", …" : "");
}
