"""Read the device's hardware and system facts, once when the agent starts."""

import os
import platform
import re
import socket
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from agent.device.gpu import find_gpus
from agent.device.process_table import read_text
from agent.protocol.messages import Facts


def read_facts(server: str, labels: Mapping[str, str] = MappingProxyType({})) -> Facts:
    """Return the facts of this device.

    `ip` is the address that the device uses towards `server`. `labels` come from the configuration.
    """
    return Facts(
        hostname=socket.gethostname()[:255],
        ip=_address_towards(server),
        platform=platform.platform()[:200],
        machine=platform.machine()[:40],
        cpu_model=_cpu_model()[:200],
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=find_gpus(),
        labels=dict(labels),
    )


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
