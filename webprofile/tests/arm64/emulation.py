"""Tests of the agent that cannot run under qemu-user, with the reasons.

qemu-user translates programs and forwards their system calls. It does not set address space limits
(they would apply to itself), `/proc` shows qemu or emulated data, each process has a thread and
30 MB of qemu, an aborting program prints one more line, and everything is ten times slower.
https://www.qemu.org/docs/master/user/main.html
"""

_LIMIT = "qemu sets no limit of the address space"
_PROC = "/proc shows qemu or emulated data"
_SLOW = "emulation is too slow for its time limit"
_SITE = "needs parts of the site, which only this machine has"

#: test or test file below agent/ -> reason why it is excluded
EXCLUDED = {
    "install/tests/test_build.py": "sites build the agent, devices do not",
    "tests/test_broken_connections.py": _SITE,
    "tests/test_attempt.py::test_a_run_has_its_files_and_limits_but_no_secrets": _LIMIT,
    "tests/test_ending.py::test_a_process_above_its_memory_limit_fails": _LIMIT,
    "tests/test_ending.py::test_limits_are_set_with_and_without_prlimit": _LIMIT,
    "device/tests/test_state.py::test_cpu_time_of_a_child_process_counts_as_the_agents_own":
        _PROC,
    "device/tests/test_state.py::test_the_process_table_contains_this_process": _PROC,
    "tests/test_cores.py::test_a_pinned_agent_does_not_pin_its_runs":
        "qemu's own thread is not pinned",
    "tests/test_heartbeat_process.py::test_the_process_is_small_pinned_and_has_priority":
        "qemu's memory counts",
    "tests/test_ending.py::test_cancel_ends_a_run": _SLOW,
    "tests/test_ending.py::test_cancel_kills_a_process_that_ignores_sigterm_after_grace_s":
        _SLOW,
    "tests/test_ending.py::test_a_timeout_kills_grandchildren": _SLOW,
    "tests/test_heartbeat_process.py::"
    "test_leases_are_renewed_while_all_cores_are_busy_and_the_agent_is_blocked": _SLOW,
    "tests/test_measure.py::test_twenty_profiles_are_uploaded": _SLOW,
    "tests/test_warm_safety.py::test_the_next_agent_ends_the_pre_started_run_of_a_killed_agent":
        _SLOW,
}  # fmt: skip


def deselect_options(source: str) -> list[str]:
    """Return the pytest options that exclude them. `source`: path of the repository inside."""
    # --deselect takes ids relative to the root folder, --ignore takes paths
    return [
        f"--deselect=agent/{name}" if "::" in name else f"--ignore={source}/agent/{name}"
        for name in EXCLUDED
    ]
