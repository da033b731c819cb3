"""What this agent has learnt of models' inputs, so that it need not ask a process again."""

from collections import OrderedDict

from agent.protocol import Start
from agent.protocol.run_log import TensorInfo

_MOST = 256


class KnownInputs:
    """Inputs by the model's MD5 and size and the runtime that told them; the oldest go first."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int, str, bool], tuple[TensorInfo, ...]] = OrderedDict()

    def get(self, order: Start) -> tuple[TensorInfo, ...] | None:
        """None if nothing is known; an empty tuple is a model without inputs."""
        found = self._found.get(_key(order))
        if found is not None:
            self._found.move_to_end(_key(order))
        return found

    def put(self, order: Start, inputs: tuple[TensorInfo, ...]) -> None:
        self._found[_key(order)] = inputs
        while len(self._found) > _MOST:
            self._found.popitem(last=False)


def _key(order: Start) -> tuple[str, int, str, bool]:
    # mdl has no words for some dtypes, lite has
    return (order.model.md5, order.model.size_bytes, order.runtime, bool(order.options.get("lite")))
