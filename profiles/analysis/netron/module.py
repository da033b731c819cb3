"""Convert one view of an executed graph to Netron's nodes and values."""

from typing import Any

import numpy as np

from profiles.analysis.data import ProfileData
from profiles.analysis.netron.text import OperatorPanel, dimensions, plain
from profiles.analysis.netron.wiring import GraphWiring
from profiles.analysis.scopes import ViewNode
from profiles.formats.columns import MISSING
from profiles.formats.load_and_run.graph import Index

_INPUT = "InputCallback"
_OUTPUT = "OutputCallback"
#: most boxes drawn for values that come from or go to other views
_MOST_BOXES = 100


class NetronValues:
    """Netron's values: tensors with unique names, because Netron merges equal names."""

    def __init__(self, data: ProfileData, wiring: GraphWiring) -> None:
        self.made: list[dict[str, Any]] = []
        self._variables = data.graph.variables
        self._is_constant = wiring.is_constant
        self._places: dict[int, int] = {}
        self._names: set[str] = set()

    def of(self, variable: int) -> int:
        """Return the index of a variable's value, which is created on first use."""
        if variable not in self._places:
            name = plain(self._variables.names[variable])
            value = self._tensor_type(variable)
            if self._is_constant[variable]:
                # Netron draws a value with an initializer as a weight: without a box and without an
                # edge
                value = {"initializer": {"type": value.get("type") or _unknown()}}
            self._places[variable] = self._add(name, self._variables.ids[variable], value)
        return self._places[variable]

    def outside(self, variable: int) -> int:
        """Return the index of a new value for an input of the graph with this variable."""
        name = plain(self._variables.names[variable])
        return self._add(
            f"{name} (fed)", self._variables.ids[variable], self._tensor_type(variable)
        )

    def _tensor_type(self, variable: int) -> dict[str, Any]:
        axes = dimensions(self._variables.shapes[variable])
        dtype = self._variables.dtypes[variable]
        if axes is None and dtype is None:
            return {}
        kind = _unknown()
        if dtype is not None:
            kind["dataType"] = plain(dtype).lower()
        if axes is not None:
            kind["shape"]["dimensions"] = axes
        return {"type": kind}

    def _add(self, name: str, identity: str, value: dict[str, Any]) -> int:
        if not name or name in self._names:
            name = f"{name} #{plain(identity)}"
        while name in self._names:
            name += "'"
        self._names.add(name)
        self.made.append({"name": name} | value)
        return len(self.made) - 1


def _unknown() -> dict[str, Any]:
    return {"dataType": "?", "shape": {"dimensions": []}}


class Module:
    """The nodes of a view and the boxes around it.

    items: the n items of the view
    categories: the colour classes of the items
    """

    def __init__(
        self,
        data: ProfileData,
        wiring: GraphWiring,
        *,
        items: list[ViewNode],
        categories: list[str],
        panel: OperatorPanel,
    ) -> None:
        self._operators = data.graph.operators
        self._variables = data.graph.variables
        self._wiring = wiring
        self._panel = panel
        self._values = NetronValues(data, wiring)
        self._holder: Index = np.full(len(wiring.rows), MISSING, dtype=np.int32)
        for number, item in enumerate(items):
            self._holder[item.members] = number
        self._items = items
        self._names: set[str] = set()
        #: boxes around the view by variable: label and value
        self._inputs: dict[int, tuple[str, int]] = {}
        self._outputs: dict[int, tuple[str, int]] = {}
        self.nodes = [
            self._node(number, item, category)
            for number, (item, category) in enumerate(zip(items, categories, strict=True))
        ]

    def document(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "values": self._values.made,
            "inputs": self._boxes(self._inputs),
            "outputs": self._boxes(self._outputs),
        }

    def constants(self) -> list[tuple[int, str]]:
        """Return (row of the table, name of the first operator that reads it) for each constant."""
        constants: dict[int, str] = {}
        for node, item in zip(self.nodes, self._items, strict=True):
            if item.place is not None:
                continue
            for variable in self._wiring.reads[int(item.members[0])]:
                maker = self._variables.producer[variable]
                if not self._wiring.is_constant[variable] or maker == MISSING:
                    continue
                row = int(self._operators.row[maker])
                if row != MISSING:
                    constants.setdefault(row, node["name"])
        return list(constants.items())

    def _boxes(self, boxes: dict[int, tuple[str, int]]) -> list[dict[str, Any]]:
        drawn = list(boxes.values())[:_MOST_BOXES]
        return [{"name": label, "value": [value]} for label, value in drawn]

    def _label(self, variables: list[int]) -> str:
        names = ", ".join(self._variables.names[variable] for variable in variables)
        # Netron shows only the text after the last slash
        return plain(names).replace("/", "\N{DIVISION SLASH}")

    def _node(self, number: int, item: ViewNode, category: str) -> dict[str, Any]:
        position = int(item.members[0])
        is_block = item.place is not None
        kind = self._block_title(item) if is_block else self._operators.types[self._row(position)]
        lines = self._panel.block(item.members) if is_block else self._panel.operator(position)
        return {
            # Netron shows only the text after the last dot of a type
            "type": {"name": plain(kind or "?").replace(".", "/"), "category": category},
            "name": self._name(item),
            "inputs": self._read(number, item),
            "outputs": self._made(number, item),
            "attributes": [{"name": name, "value": text} for name, text in lines],
        }

    def _row(self, position: int) -> int:
        return int(self._wiring.rows[position])

    def _block_title(self, item: ViewNode) -> str:
        assert item.place is not None
        if item.place.last is None:
            return f"{'.'.join(item.place.scope)} ({len(item.members)})"
        return f"{item.place.first + 1}–{item.place.last + 1} ({len(item.members)})"

    def _name(self, item: ViewNode) -> str:
        """Return a name that is unique in the view; it becomes an id in Netron's page."""
        if item.place is not None:
            name = f"block {plain(item.place.address)}"
        else:
            row = self._row(int(item.members[0]))
            name = f"[{plain(self._operators.ids[row])}] {plain(self._operators.names[row])}"
        while name in self._names:
            name += "'"
        self._names.add(name)
        return name

    def _read(self, number: int, item: ViewNode) -> list[dict[str, Any]]:
        """Return the inputs that a node reads from outside of itself, each variable once."""
        inputs: dict[int, dict[str, Any]] = {}
        for position in item.members.tolist():
            for variable in self._wiring.reads[position]:
                source = int(self._wiring.source[variable])
                is_inner = source != MISSING and self._holder[source] == number
                is_constant = bool(self._wiring.is_constant[variable])
                if variable in inputs or is_inner or (is_constant and item.place is not None):
                    continue
                value = self._values.of(variable)
                if not is_constant and (source == MISSING or self._holder[source] == MISSING):
                    self._inputs.setdefault(variable, (self._label([variable]), value))
                inputs[variable] = {"name": self._argument(variable, len(inputs)), "value": [value]}
            if self._operators.types[self._row(position)] == _INPUT:
                inputs |= self._input_boxes(position)
        return list(inputs.values())

    def _input_boxes(self, position: int) -> dict[int, dict[str, Any]]:
        """Return the box in front of an operator that takes an input of the graph."""
        made = self._wiring.makes[position]
        if self._wiring.reads[position] or not made:
            return {}
        value = self._values.outside(made[0])
        self._inputs[made[0]] = (self._label(made[:1]), value)
        return {made[0]: {"name": "input", "value": [value]}}

    def _argument(self, variable: int, place: int) -> str:
        """Return `weight` for `layer1.0.conv1.weight`, otherwise a number, as MegEngine does."""
        last = self._variables.names[variable].rpartition(".")[2]
        is_named = self._wiring.is_constant[variable] and last.isidentifier()
        return plain(last) if is_named else str(place)

    def _made(self, number: int, item: ViewNode) -> list[dict[str, Any]]:
        """Return the outputs of a node.

        For a block these are only the variables that others read; for an operator, all if none is
        read.
        """
        outputs: list[dict[str, Any]] = []
        for position in item.members.tolist():
            made = self._wiring.makes[position]
            readers = {variable: self._wiring.readers.get(variable, []) for variable in made}
            is_last = self._operators.types[self._row(position)] == _OUTPUT
            for variable in made:
                holders = {int(self._holder[reader]) for reader in readers[variable]}
                if MISSING in holders or (is_last and not holders):
                    # an output of the graph is named before the operator that returns it
                    label = self._wiring.reads[position][:1] if is_last else [variable]
                    self._outputs.setdefault(
                        variable, (self._label(label), self._values.of(variable))
                    )
                is_wanted = bool(holders - {number}) or variable in self._outputs
                if is_wanted or (item.place is None and not any(readers.values())):
                    value = self._values.of(variable)
                    outputs.append({"name": str(len(outputs)), "value": [value]})
        return outputs
