"""What an administrator pastes on a device."""

import shlex

from django.conf import settings

from workers import releases
from workers.models import Worker


def enrol_line(worker: Worker, code: str) -> dict[str, str]:
    """Two commands, each of which makes a machine this worker: the agent installed and started.

    `curl` needs Python 3 alone; `pipx` is for those who prefer it, and empty while the site serves
    no agent. `clone` is for an agent that runs from a clone of the repository.
    """
    site, quoted = settings.SITE_URL, shlex.quote(code)
    lines = {
        "curl": f"curl -fsS {site}/agent/install.py | python3 - --code {quoted} --start",
        "pipx": "",
        "clone": f"python -m agent enrol --server {site} --code {quoted} --find-runtimes",
    }
    if release := releases.served():
        wheel = f"{site}/agent/{release.wheel}"
        arguments = f"--server {site} --code {quoted} --start"
        lines["pipx"] = f"pipx run --spec {shlex.quote(wheel)} {releases.PROGRAM} {arguments}"
    return lines
