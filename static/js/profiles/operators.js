// All operators of a profile, column by column. The table, the charts and the graph share one copy.
//
// Operators are identified by their rows; times are in µs; unknown numbers are null.

import { timeUnit } from "../format.js";
import { getJson } from "../requests.js";

let loading = null;

/** Fetch the operators once. `section`: an element with `data-operators` and `data-login`. */
export function loadOperators(section) {
  const { operators, login } = section.dataset;
  loading ??= getJson(operators, { login, cache: "no-cache" }).then(withTypes);
  loading.catch(() => {
    loading = null;
  });
  return loading;
}

/** Add derived values to the server's columns: total time in µs, their common unit, types sorted by time, the rank of each type. */
export function withTypes(data) {
  const { us } = data[data.side];
  const byType = new Map();
  let total = 0;
  data.types.forEach((code, row) => {
    if (us[row] === null || us[row] < 0) return;
    total += us[row];
    byType.set(code, (byType.get(code) ?? 0) + us[row]);
  });
  const order = [...byType.keys()].sort((a, b) => byType.get(b) - byType.get(a));
  const ranks = new Map(order.map((code, rank) => [code, rank]));
  return {
    ...data,
    us,
    total,
    unit: timeUnit(us.map((time) => (time === null ? 0 : time / 1e6))),
    order,
    typeName: (code) => data.type_names[code] ?? "",
    typeOf: (row) => data.type_names[data.types[row]] ?? "",
    rankOf: (row) => ranks.get(data.types[row]) ?? -1,
    rankOfType: (code) => ranks.get(code) ?? -1,
  };
}

/** `conv(layer1.0.relu,layer1.0.conv1.weight)[12]`: the function, and the number at the end. */
const CALL = /^([\w:.]+)\(.*?\)?(?:\[\d+\])?$/;

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
