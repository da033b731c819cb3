"""Build a seccomp filter for scripts.

The filter rejects system calls that computing programs do not need and that kernel exploits have
used. It is a classic BPF program, the format of bubblewrap's `--seccomp`. It rejects namespaces (in
which a script would be root again), mounts, modules, keys, io_uring, BPF, performance counters,
pushing input into a terminal, and socket families that a network namespace does not isolate, such
as vsock (to the host of a virtual machine). All other calls are allowed.
"""

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
#: offsets in seccomp_data: number, architecture, the low halves of two arguments
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_NEW_USER = 0x10000000
#: requests of ioctl that push input into a terminal: TIOCSTI, TIOCLINUX
_PUSH_REQUESTS = (0x5412, 0x541C)
#: socket families that the sandbox isolates: UNIX, IPv4, IPv6, netlink
_FAMILIES = (1, 2, 10, 16)


@dataclass(frozen=True)
class _Calls:
    """Numbers of system calls of one architecture.

    Numbers from `foreign` on belong to another ABI (x32).
    """

    architecture: int
    clone: int
    ioctl: int
    socket: int
    refused: tuple[int, ...]
    foreign: int = 0


#: a filter cannot read the flags of clone3; if it is missing, the C library uses clone
_CLONE3 = 435
#: numbers that are the same on all architectures: io_uring, open_tree to fspick, mount_setattr
_NEWER = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
_CALLS = {
    "x86_64": _Calls(
        architecture=0xC000003E,
        clone=56,
        ioctl=16,
        socket=41,
        # unshare setns mount umount2 pivot_root chroot swapon swapoff reboot kexec (2) modules (3)
        # bpf perf_event_open userfaultfd keys (3) handles (2) quotactl acct syslog
        refused=(
            *(272, 308, 165, 166, 155, 161, 167, 168, 169, 246, 320, 175, 313, 176),
            *(321, 298, 323, 250, 248, 249, 304, 303, 179, 163, 103),
        ),
        foreign=0x40000000,
    ),
    "aarch64": _Calls(
        architecture=0xC00000B7,
        clone=220,
        ioctl=29,
        socket=198,
        refused=(
            *(97, 268, 40, 39, 41, 51, 224, 225, 142, 104, 294, 105, 273, 106),
            *(280, 241, 282, 219, 217, 218, 265, 264, 60, 89, 116),
        ),
    ),
}


def build_filter(machine: str = "") -> bytes:
    """Return the filter for a machine (default: this one), empty if `_CALLS` does not list it."""
    calls = _CALLS.get(machine or platform.machine())
    if calls is None:
        return b""
    refuse, missing = _REFUSE | errno.EPERM, _REFUSE | errno.ENOSYS
    # fields of a jump: opcode, steps to skip if true, steps to skip if false, operand
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, calls.architecture)]
    steps += [(_RETURN, 0, 0, refuse), (_LOAD, 0, 0, _NUMBER)]
    if calls.foreign:
        steps += [(_AT_LEAST, 0, 1, calls.foreign), (_RETURN, 0, 0, refuse)]
    for number in (*calls.refused, *_NEWER):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    steps += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, missing)]
    steps += [(_EQUAL, 0, 4, calls.clone), (_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _NEW_USER)]
    steps += [(_RETURN, 0, 0, refuse), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_EQUAL, 0, 2 * len(_FAMILIES) + 2, calls.socket), (_LOAD, 0, 0, _FIRST)]
    for family in _FAMILIES:
        steps += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT)]
    steps += [(_EQUAL, 0, 5, calls.ioctl), (_LOAD, 0, 0, _SECOND)]
    for number in _PUSH_REQUESTS:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
