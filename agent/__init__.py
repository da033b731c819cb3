"""The agent on a device: receives attempts from the server, runs them, reports the results."""

from pathlib import Path

#: of the agent, the client and the site; `agent.install.build` replaces this module in its builds
__version__ = Path(__file__).with_name("VERSION").read_text(encoding="ascii").strip()
