"""Read YAML with plain values and without duplicate keys."""

from pathlib import Path
from typing import Any

import yaml

from webprofile.client.batchfile import BatchError

_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """A loader that rejects duplicate keys, of which PyYAML would silently drop the first."""


def _table(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    own = [key_node for key_node, _ in node.value if key_node.tag != _MERGE]
    keys = [_key(loader, key_node) for key_node in own]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise yaml.constructor.ConstructorError(
                None, None, f"“{key}” occurs twice", own[place].start_mark
            )
    # the keys of merged mappings (`<<`) come first, so that own keys replace them
    loader.flatten_mapping(node)
    return {
        _key(loader, key_node): loader.construct_object(value_node, deep=True)
        for key_node, value_node in node.value
    }


def _key(loader: _Loader, node: yaml.Node) -> str:
    key = loader.construct_object(node, deep=True)
    if not isinstance(key, str):
        raise yaml.constructor.ConstructorError(
            None, None, "expected a string as key", node.start_mark
        )
    return key


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
