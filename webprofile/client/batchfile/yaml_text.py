"""YAML as the list of tasks uses it: plain values, and no key twice."""

from typing import Any

import yaml


class YamlError(Exception):
    """Why a text is no YAML that we read, in one line with the place."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one table: PyYAML would drop the first silently."""


def _table(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, "expected a text as key", key_node.start_mark
            )
        if key in found:
            raise yaml.constructor.ConstructorError(
                None, None, f"“{key}” stands twice", key_node.start_mark
            )
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _table)


def read_yaml(text: str) -> Any:
    """Raises YamlError, naming line and column from 1."""
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise YamlError(f"{error.problem}{place}") from error
    except RecursionError as error:
        raise YamlError("nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(" ".join(str(error).split())) from error
