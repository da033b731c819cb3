// Short names of operators: what tells one from the others comes first.

/** `conv(layer1.0.relu,layer1.0.conv1.weight)[12]`: the function, and the number at the end. */
const CALL = /^([\w:.]+)\(.*?\)?(?:\[(\d+)\])?$/;

/**
 * The short name of a row: its scope and what it does, such as `layer1.0.conv1 · conv`. Names that
 * are no calls, or have no scope, stay as they are.
 */
export function shortName(operators, row) {
  const name = operators.names[row];
  const scope = operators.scopes.values[operators.scopes.codes[row]];
  if (!scope) return name;
  const call = CALL.exec(name);
  return call ? `${scope} · ${call[1]}` : name;
}

/** `[[1,64,56,56],[64]]` as `1×64×56×56, 64`; an empty text for null. */
export function shapesText(json) {
  if (!json) return "";
  let shapes;
  try {
    shapes = JSON.parse(json);
  } catch {
    return json;
  }
  if (!Array.isArray(shapes)) return "";
  return shapes.map((shape) => (Array.isArray(shape) ? shape.join("×") || "1" : "?")).join(", ");
}
