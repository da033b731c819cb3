"""Read YAML with plain values and without duplicate keys."""

from pathlib import Path
from typing import Any

import yaml

from webprofile.client.batchfile import BatchError


class _Loader(yaml.SafeLoader):
    """A loader that rejects duplicate keys, of which PyYAML would silently drop the first."""


def _table(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    table: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, "expected a string as key", key_node.start_mark
            )
        if key in table:
            raise yaml.constructor.ConstructorError(
                None, None, f"“{key}” occurs twice", key_node.start_mark
            )
        table[key] = loader.construct_object(value_node, deep=True)
    return table


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _table)


def read_yaml(path: Path, text: str) -> Any:
    """Parse the text of a file; raise BatchError with line and column, counted from 1."""
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise BatchError([(str(path), f"{error.problem}{place}")]) from error
    except RecursionError as error:
        raise BatchError([(str(path), "nested too deeply")]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise BatchError([(str(path), " ".join(str(error).split()))]) from error
