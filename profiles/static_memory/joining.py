"""Which operators of a profile are those of a memory plan.

The two come from graphs that were compiled apart: with another operator at each input and output
all later ids differ. Names of variables stay.
"""

from collections import Counter

from profiles.analysis.data import ProfileData
from profiles.parsers.columns import MISSING
from profiles.static_memory.summary import StaticMemory


def rows_of(found: StaticMemory, data: ProfileData) -> dict[int, int]:
    """Return the row of `data.columns` by step, for the steps whose operator is certain.

    That is one of the same id and name, else the only one of its type whose first output has the
    same name, if the plan has only one of these, too.
    """
    if not data.has_operators:
        return {}
    columns, graph = data.columns, data.graph
    by_id = {pair: row for row, pair in enumerate(zip(columns.ids, columns.names, strict=True))}
    by_output: dict[tuple[str, str | None], int] = {}
    seen: Counter[tuple[str, str | None]] = Counter()
    for place, row in enumerate(graph.operators.row.tolist()):
        outputs = graph.operators.outputs[place]
        if row != MISSING and len(outputs):
            key = (graph.variables.names[outputs[0]], columns.types[row])
            by_output[key] = row
            seen[key] += 1
    wanted = Counter((each.makes, each.type) for each in found.operators)
    rows: dict[int, int] = {}
    for each in found.operators:
        key = (each.makes, each.type)
        if each.id and (each.id, each.name) in by_id:
            rows[each.step] = by_id[each.id, each.name]
        elif each.makes and seen[key] == wanted[key] == 1:
            rows[each.step] = by_output[key]
    return rows
