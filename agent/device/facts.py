"""Read the device's hardware and system facts, once when the agent starts."""

import os
import platform
import re
import socket
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from agent.device.gpu import find_gpus
from agent.device.process_table import read_group_files, read_text
from agent.protocol.messages import MAX_CORES, Facts


def read_facts(
    server: str,
    labels: Mapping[str, str] = MappingProxyType({}),
    run_cores: tuple[int, ...] = (),
) -> Facts:
    """Return the facts of this device.

    `ip` is the address that the device uses towards `server`. `labels` come from the configuration.
    `run_cores` are the cores that runs may use.
    """
    return Facts(
        hostname=socket.gethostname()[:255],
        ip=_address_towards(server),
        platform=platform.platform()[:200],
        machine=platform.machine()[:40],
        cpu_model=_cpu_model()[:200],
        cores=os.cpu_count() or 1,
        run_cores=run_cores if len(run_cores) <= MAX_CORES else (),
        memory_bytes=usable_memory_bytes(),
        gpus=find_gpus(),
        labels=dict(labels),
    )


def usable_memory_bytes(root: str = "/") -> int:
    """Return the memory of the machine, or that of the agent's control group if it is limited.

    The kernel kills processes of the group beyond its limit, the agent among them.

    root: folder that contains /proc and /sys
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    texts = read_group_files("memory", "memory.max", "memory.limit_in_bytes", root)
    sizes += [int(text) for text in texts if text.isdecimal()]
    return min(sizes)


def _address_towards(server: str) -> str:
    """Return the device's own address on the route to the server.

    Connecting a UDP socket sends no packet.
    """
    parts = urlsplit(server)
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])[:45]
    except OSError:
        return ""


def _cpu_model() -> str:
    """Return the CPU's name: from /proc/cpuinfo, else (ARM boards) from the device tree."""
    text = read_text("/proc/cpuinfo")
    for key in ("model name", "Hardware", "cpu model"):
        match = re.search(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE)
        if match:
            return match[1].strip()
    return read_text("/proc/device-tree/model").strip("\0 \n") or platform.processor()
