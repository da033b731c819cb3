// Numbers that are typed, and the JSON that carries them without losing a digit.

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const WHOLE = /^[+-]?\d+$/;

/**
 * A typed number as Number, or as BigInt where a Number would round it. What is none, or none that
 * JSON can carry (1e999), stays text: the server then says so at the field.
 */
export function readNumber(text) {
  if (!NUMBER.test(text)) return text;
  const value = Number(text);
  if (!Number.isFinite(value)) return text;
  return WHOLE.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

/** JSON.stringify for plain data that may hold BigInts, which become whole numbers. */
export function toJson(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(toJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const given = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${given.map(([name, each]) => `${JSON.stringify(name)}:${toJson(each)}`).join(",")}}`;
}
