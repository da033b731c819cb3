"""What a runtime on a device can do, as far as options depend on it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Capabilities:
    """`flags`: the options it knows, empty if that is not known. `builds`: cuda, tensorrt, opencl.

    `libraries`: names of the C operator libraries that the device's owner lists.
    `cores`: how many the device has, 0 if that is not known.
    """

    kind: Literal["wheel", "binary"]
    version: str = ""
    flags: frozenset[str] = frozenset()
    builds: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()
    cpu_model: str = ""
    cores: int = 0

    @property
    def is_amd(self) -> bool:
        return "AMD" in self.cpu_model
