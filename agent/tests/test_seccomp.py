"""The seccomp filter, run by a small interpreter of classic BPF."""

import errno
import struct

import pytest

from agent.execution.seccomp import build_filter

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = 0x7FFF0000


def run_filter(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Return the result of the filter: an errno, or ALLOWED."""
    data = struct.pack(
        "<IIQ6Q",
        number,
        ARCHITECTURES[machine] if architecture is None else architecture,
        0,
        *(*arguments, *[0] * 6)[:6],
    )
    steps = list(struct.iter_unpack("=HBBI", build_filter(machine)))
    at = accumulator = 0
    while True:
        code, if_so, if_not, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return value & 0xFFFF if value != ALLOWED else ALLOWED
        else:
            is_so = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            at += if_so if is_so else if_not


@pytest.mark.parametrize(
    ("machine", "unshare", "mount", "clone", "ioctl", "socket", "read"),
    [("x86_64", 272, 165, 56, 16, 41, 0), ("aarch64", 97, 40, 220, 29, 198, 63)],
)
def test_dangerous_system_calls_are_refused(machine, unshare, mount, clone, ioctl, socket, read):
    thread, in_a_namespace = 0x3D0F00, 0x10000011
    for number in (unshare, mount, 425, 428, 442):
        assert run_filter(machine, number) == errno.EPERM
    assert run_filter(machine, clone, in_a_namespace) == errno.EPERM
    assert run_filter(machine, clone, thread) == ALLOWED
    assert run_filter(machine, 435) == errno.ENOSYS
    assert run_filter(machine, ioctl, 0, 0x5412) == errno.EPERM
    assert run_filter(machine, ioctl, 0, 0x5413) == ALLOWED
    assert [run_filter(machine, socket, family) for family in (1, 2, 10, 16)] == [ALLOWED] * 4
    # bluetooth, the kernel's crypto, a virtual machine's host, XDP
    assert {run_filter(machine, socket, family) for family in (31, 38, 40, 44)} == {
        errno.EAFNOSUPPORT
    }
    assert run_filter(machine, read) == ALLOWED
    # other architectures have other numbers
    assert run_filter(machine, read, architecture=0x40000003) == errno.EPERM


def test_x32_system_calls_are_refused():
    assert run_filter("x86_64", 0x40000000) == errno.EPERM


def test_an_unknown_architecture_has_no_filter():
    assert build_filter("riscv64") == b""
