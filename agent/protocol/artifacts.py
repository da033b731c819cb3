"""The files that an attempt may leave: their names, and how large they may be."""

import re
from collections.abc import Mapping

from agent.protocol.option_table import OPTIONS
from agent.protocol.plan import MOST_PROFILED

PROFILE_NAME = "profile.json"
LOG_NAME = "log.txt"
#: every iteration's time, every pass, the state of the device: `agent.protocol.measurement`
MEASUREMENT_NAME = "measurement.json"
#: what is needed to do it again: `agent.protocol.manifest`
MANIFEST_NAME = "manifest.json"
#: of a script, by the Profiler: `agent.protocol.script`
TRACE_NAMES = ("chrome_timeline.json", "memory_flow.svg")
_PROFILE = re.compile(r"profile(?:-(\d{1,2}))?\.json")

MIB = 1 << 20
#: the most bytes of one file
LIMITS: Mapping[str, int] = {
    LOG_NAME: 8 * MIB,
    MEASUREMENT_NAME: 16 * MIB,
    MANIFEST_NAME: 4 * MIB,
    "chrome_timeline.json": 2048 * MIB,
    "memory_flow.svg": 256 * MIB,
    "io_dump.txt": 512 * MIB,
    "bin_io_dump.zip": 2048 * MIB,
    "bin_out_dump.zip": 512 * MIB,
    "algo_cache.bin": 64 * MIB,
    "tensorrt_cache.bin": 1024 * MIB,
    "staticmeminfo.zip": 256 * MIB,
    "layout_transform.mge": 2048 * MIB,
    "model_dump.mge": 2048 * MIB,
    "packed_model.lite": 2048 * MIB,
    "fitting_model.lite": 2048 * MIB,
}
#: the most bytes of all files of one attempt together
TOTAL_LIMIT_BYTES = 4096 * MIB
PROFILE_LIMIT_BYTES = 512 * MIB


def profile_name(number: int) -> str:
    """The name of the profile of the profiled pass `number`, from 1: the first has no number."""
    return PROFILE_NAME if number == 1 else f"profile-{number}.json"


#: of every profiled pass that a plan may have
PROFILE_NAMES = tuple(map(profile_name, range(1, MOST_PROFILED + 1)))


def profile_number(name: str) -> int | None:
    """The number of the profiled pass that wrote the file `name`; None if it is no profile."""
    found = _PROFILE.fullmatch(name)
    if found is None:
        return None
    number = int(found.group(1) or 1)
    return number if 1 <= number <= MOST_PROFILED and profile_name(number) == name else None


def artifact_of(option: str) -> str:
    """The name of the artifact that an option of kind `artifact` leaves: a folder comes as zip."""
    file = OPTIONS[option].file
    return file.removesuffix("/") + ".zip" if file.endswith("/") else file


def limit_of(name: str) -> int | None:
    """The most bytes that an artifact of this name may have; None if there is no such artifact."""
    return PROFILE_LIMIT_BYTES if profile_number(name) else LIMITS.get(name)
