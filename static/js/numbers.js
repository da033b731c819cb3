// Parse numbers from form fields, and serialize them to JSON without loss of digits.

const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
const WHOLE = /^[+-]?\d+$/;

/**
 * Parse a number: a Number, or a BigInt where a Number would round it. Text that is not a number, or
 * not one that JSON can hold (1e999), is returned unchanged, and the server reports it at the field.
 */
export function readNumber(text) {
  if (!NUMBER.test(text)) return text;
  const value = Number(text);
  if (!Number.isFinite(value)) return text;
  return WHOLE.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

/** JSON.stringify for plain data in which BigInts become integers. */
export function toJson(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(toJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${entries.map(([name, field]) => `${JSON.stringify(name)}:${toJson(field)}`).join(",")}}`;
}
