"""The table of options as plain data, for programs: the site's page and the agent's command."""

from typing import Any

from agent.protocol.artifacts import artifact_of
from agent.protocol.option import Option
from agent.protocol.option_table import KEPT_BY_FITTING, OPTIONS


def describe() -> list[dict[str, Any]]:
    """Every option in the order of the table, its fields as `agent.protocol.option.Option`'s.

    `artifact` is the name of the artifact that it leaves, `taken` whether users may set it,
    `keeps_only` what stays set beside it if it resets the others.
    """
    return [_row(option) for option in OPTIONS.values()]


def _row(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "group": option.group.value,
        "kind": option.kind,
        "type": option.type,
        "default": option.default,
        "minimum": option.minimum,
        "maximum": option.maximum,
        "choices": list(option.choices),
        "pattern": option.pattern,
        "needs": list(option.needs),
        "excludes": list(option.excludes),
        "keeps_only": sorted(KEPT_BY_FITTING) if option.name == "fitting" else [],
        "alone": option.alone,
        "platform": option.platform,
        "lite": option.lite,
        "wheel": option.wheel,
        "wheel_mdl": option.wheel_mdl,
        "wheel_graph": option.wheel_graph,
        "wheel_needs": list(option.wheel_needs),
        "by_agent": option.by_agent,
        "since": option.since,
        "file_taken": option.file_taken or option.kind == "file",
        "artifact": artifact_of(option.name) if option.kind == "artifact" else "",
        "taken": option.kind != "agent",
    }
