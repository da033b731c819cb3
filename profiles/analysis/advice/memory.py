"""Rules for shapes that are unknown before the run, and their cost."""

import numpy as np

from profiles.analysis.advice.context import CALLBACKS, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.formats.columns import MISSING
from profiles.formats.load_and_run.graph import PERSISTENT

#: flags of variables; source: `include/megbrain/graph/var_node.h` of MegEngine
_BY_OPERATOR = "NO_SYS_MEM_ALLOC"
_AT_RUN_TIME = "RT_FORCE_DYNAMIC_MEM_ALLOC"
DYNAMIC_SHARE = 0.5


def dynamic_shapes(context: RuleContext) -> Finding | None:
    """The output size of an operator depends on values, as for CondTake.

    MegEngine lets such operators allocate their outputs themselves. Memory of the operators after
    them cannot be planned, and record_comp_seq does not work.
    """
    operators, variables = context.graph.operators, context.graph.variables
    own = variables.with_flag(_BY_OPERATOR) & (variables.producer != MISSING)
    makers = np.unique(variables.producer[own])
    rows = operators.row[makers[context.edges.runs[makers]]]
    rows = rows[rows != MISSING]
    rows = rows[~context.of_types(CALLBACKS)[rows]]
    if not len(rows):
        return None
    return Finding(
        rule="dynamic_shapes",
        severity="note",
        rows=context.slowest_first(rows),
        params={"count": len(rows), "type": context.types[int(rows[0])] or ""},
    )


def no_memory_plan(context: RuleContext) -> Finding | None:
    """Most variables are allocated at run time because Python feeds the inputs.

    MegEngine's own `load_network_and_run` does so: the shapes of its inputs are unknown before the
    run. Measured on a full-width resnet18, this is 30 to 40 % slower than static shapes (131 to 170
    ms instead of 101 to 105). load_and_run always has static shapes, so the rule considers only
    profiles made with other programs. Training steps are excluded, because they cannot run without
    it.
    """
    if context.is_training or context.facts.options is not None:
        return None
    if not context.of_types({"InputCallback"}).any():
        return None
    variables = context.graph.variables
    producer = variables.producer
    made = producer != MISSING
    made[made] = context.edges.runs[producer[made]]
    computed = made & ~variables.with_flag(_BY_OPERATOR) & ~variables.with_flag(PERSISTENT)
    dynamic = computed & variables.with_flag(_AT_RUN_TIME)
    if not computed.sum() or dynamic.sum() < DYNAMIC_SHARE * computed.sum():
        return None
    return Finding(
        rule="no_memory_plan",
        severity="note",
        rows=context.slowest_first(np.flatnonzero(context.of_types({"InputCallback"}))),
        params={"count": int(dynamic.sum()), "of": int(computed.sum())},
    )
