// The operators' names, types and times, which all charts share; indexed by row of the profile's columns.

/** Add derived values to the server's columns: total time in µs, types sorted by time, the rank of each type. */
export function withTypes(data) {
  const byType = new Map();
  let total = 0;
  data.types.forEach((code, row) => {
    const us = data.us[row];
    if (us === null || us < 0) return;
    total += us;
    byType.set(code, (byType.get(code) ?? 0) + us);
  });
  const order = [...byType.keys()].sort((a, b) => byType.get(b) - byType.get(a));
  const ranks = new Map(order.map((code, rank) => [code, rank]));
  return {
    ...data,
    total,
    order,
    typeName: (code) => data.type_names[code] ?? "",
    typeOf: (row) => data.type_names[data.types[row]] ?? "",
    rankOf: (row) => ranks.get(data.types[row]) ?? -1,
    rankOfType: (code) => ranks.get(code) ?? -1,
  };
}
