"""What the device is, read once at the agent's start."""

import os
import platform
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from agent.protocol import Facts, Gpu


def read_facts(server: str, labels: Mapping[str, str] = MappingProxyType({})) -> Facts:
    """Look at the device. `server` decides which of its addresses is told; `labels` are given."""
    return Facts(
        hostname=socket.gethostname()[:255],
        ip=_address_towards(server),
        platform=platform.platform()[:200],
        machine=platform.machine()[:40],
        cpu_model=_cpu_model()[:200],
        cores=os.cpu_count() or 1,
        memory_bytes=memory_bytes(),
        gpus=read_gpus(),
        labels=dict(labels),
    )


def memory_bytes() -> int:
    """Return the machine's physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _address_towards(server: str) -> str:
    """The device's own address on the way to the server; connecting a UDP socket sends nothing."""
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
    """x86 says `model name`; ARM boards say it in the device tree, or not at all."""
    text = _read("/proc/cpuinfo")
    for key in ("model name", "Hardware", "cpu model"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE)
        if found:
            return found[1].strip()
    return _read("/proc/device-tree/model").strip("\0 \n") or platform.processor()


def read_gpus() -> tuple[Gpu, ...]:
    """NVIDIA GPUs that the driver knows; none without a driver."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_gpus(done.stdout)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Read nvidia-smi's lines `name, 143771 MiB, 550.54.15`; lines of another form are skipped."""
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3:
            continue
        name, memory, driver = fields
        mebibytes = re.fullmatch(r"(\d+) MiB", memory)
        size = int(mebibytes[1]) << 20 if mebibytes else None
        gpus.append(Gpu(name=name[:200], memory_bytes=size, driver=driver[:100]))
    return tuple(gpus[:64])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
