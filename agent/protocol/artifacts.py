"""Names and size limits of the artifacts of an attempt."""

from collections.abc import Mapping

from agent.protocol.pairs import ARM_NAMES, OPERATORS_NAME, PAIRED_NAME
from agent.protocol.plan import MOST_PROFILED

PROFILE_NAME = "profile.json"
LOG_NAME = "log.txt"
#: iteration times, passes and the state of the device: `agent.protocol.measurement`
MEASUREMENT_NAME = "measurement.json"
#: everything needed to repeat the attempt: `agent.execution.report`
MANIFEST_NAME = "manifest.json"
#: traces of a script, written by MegEngine's Profiler: `agent.protocol.messages`
TRACE_NAMES = ("chrome_timeline.json", "memory_flow.svg")

MIB = 1 << 20
#: size limit of each file in bytes
LIMITS: Mapping[str, int] = {
    LOG_NAME: 8 * MIB,
    MEASUREMENT_NAME: 16 * MIB,
    MANIFEST_NAME: 4 * MIB,
    PAIRED_NAME: 4 * MIB,
    OPERATORS_NAME: 32 * MIB,
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
#: size limit of all files of one attempt together
TOTAL_LIMIT_BYTES = 4096 * MIB
PROFILE_LIMIT_BYTES = 512 * MIB


def profile_name(number: int) -> str:
    """Return the file name of the profile of a profiled pass; number 1 has no suffix."""
    return PROFILE_NAME if number == 1 else f"profile-{number}.json"


#: file names of the profiles of all profiled passes that a plan may have
PROFILE_NAMES = tuple(map(profile_name, range(1, MOST_PROFILED + 1)))


def arm_profile_name(arm: int) -> str:
    """Return the file name of the profile of an arm of a paired comparison."""
    return f"profile-{ARM_NAMES[arm].lower()}.json" if arm else PROFILE_NAME


#: file names of the profiles of all arms except the baseline
ARM_PROFILE_NAMES = tuple(map(arm_profile_name, range(1, len(ARM_NAMES))))


def profile_number(name: str) -> int | None:
    """Return the number of the profiled pass that wrote the file `name`, None for other files."""
    return PROFILE_NAMES.index(name) + 1 if name in PROFILE_NAMES else None


def limit_of(name: str) -> int | None:
    """Return the size limit of an artifact in bytes, None if there is no artifact of this name."""
    is_profile = profile_number(name) or name in ARM_PROFILE_NAMES
    return PROFILE_LIMIT_BYTES if is_profile else LIMITS.get(name)
