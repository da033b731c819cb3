"""Start all parts of a site in order, and wait until the site ends."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from webprofile.operations.devserver import device, parts
from webprofile.operations.devserver.layout import (
    REPOSITORY,
    Layout,
    free_ports,
    is_free,
    load_keys,
    socket_folder,
    stored,
    write_private,
)
from webprofile.operations.devserver.lock import HomeLock
from webprofile.operations.devserver.supervisor import PartError, Supervisor
from webprofile.terminal.output import complain, say

ADMIN = "admin@example.com"
DEMO_USER = "demo@example.com"
USUAL_PORT = 8000
#: file with ports and socket of the last run
RUNNING_NAME = "running.json"
#: the first start downloads MegEngine
RUNTIME_TIMEOUT_S = 1800.0
#: a first build downloads 80 MB
BUNDLE_TIMEOUT_S = 600.0
BUNDLE_PATIENCE_S = 15.0
#: finding MegEngine takes less time, installing it more
PATIENCE_S = 3.0

#: output of `manage.py embedded_prepare`
Accounts = dict[str, dict[str, str | None]]


def choose_ports(requested: int | None) -> list[int]:
    """Return ports for web and storage. Raises PartError if `requested` cannot be used."""
    try:
        if requested is not None and not is_free(requested):
            raise PartError(f"Port {requested} is in use: choose another one (make run PORT=...).")
    except PermissionError:
        raise PartError(
            f"Permission denied for port {requested}: choose one above 1023 (make run PORT=...)."
        ) from None
    others = free_ports(2)
    web = requested or (USUAL_PORT if is_free(USUAL_PORT) else others[0])
    return [web, others[1]]


class _Start:
    """Startup of the site.

    options: the arguments of `python -m webprofile.operations.devserver`
    """

    def __init__(
        self, site: parts.SiteConfig, supervisor: Supervisor, options: argparse.Namespace
    ) -> None:
        self._site = site
        self._layout = site.layout
        self._supervisor = supervisor
        self._options = options
        self._code: str | None = None
        self._bundle: asyncio.Task[None] | None = None

    async def bring_up(self) -> int:
        """Start all parts in order; return only after a demo with --once."""
        runtime = asyncio.create_task(self._find_runtime())
        bundle = self._bundle = asyncio.create_task(self._build_agent())
        try:
            await self._serve()
            device_runtime = await runtime
            # the first build compresses 250 MB, and nothing should run during a benchmark
            await asyncio.wait({bundle}, timeout=BUNDLE_PATIENCE_S)
        finally:
            runtime.cancel()
        await self._join(device_runtime)
        code = await self._show(device_runtime) if self._options.command == "demo" else 0
        if not self._options.once:
            await asyncio.Event().wait()
        return code

    async def _serve(self) -> None:
        """Start the servers; those that pages need start first, as all share the cores."""
        site, start = self._site, self._supervisor.start
        stores = start(parts.redis(site), parts.storage(site))
        # the web server needs the database only for requests
        await asyncio.gather(self._prepare(), stores, start(parts.web(site)))
        say(f"The site is at {site.address}")
        say(f"Data and logs are in {self._layout.home}. Ctrl-C stops everything.")
        await start(parts.dispatch(), parts.actors(), parts.sweep())

    async def _prepare(self) -> None:
        arguments = ["--admin-email", ADMIN, "--demo-user", DEMO_USER, "--worker", device.WORKER]
        if not self._is_enrolled():
            arguments.append("--enrol")
        command = parts.manage("embedded_prepare", *arguments)
        output = await self._supervisor.run("prepare", command)
        accounts: Accounts = json.loads(output.splitlines()[-1])
        self._code = accounts["enrolment"]["code"]
        self._print_passwords(accounts)

    def _is_enrolled(self) -> bool:
        """Return whether the agent is configured; without a database delete its configuration."""
        if not self._layout.database.exists():
            self._layout.agent_config.unlink(missing_ok=True)
        return self._layout.agent_config.exists()

    def _print_passwords(self, accounts: Accounts) -> None:
        """Print new passwords; only that of the demo user is stored, for the next demo."""
        if password := accounts["admin"]["password"]:
            say(f"Administrator: {ADMIN}, password {password} (shown only once)")
        password = accounts["demo"]["password"]
        if password:
            self._demo_account.unlink(missing_ok=True)
            stored(self._demo_account, {"email": DEMO_USER, "password": password})
            say(f"User: {DEMO_USER}, password {password} (stored in {self._demo_account})")

    @property
    def _demo_account(self) -> Path:
        return self._layout.home / "demo-user.json"

    # -- the device -----------------------------------------------------------------------------

    async def _find_runtime(self) -> device.MegEngineRuntime:
        finding = asyncio.create_task(
            self._supervisor.run(
                "runtime",
                [sys.executable, "-m", "agent.runtimes", "ensure"],
                # pip unpacks a gigabyte there, which remains if pip is killed
                {"TMPDIR": str(self._layout.temporary)},
                timeout_s=RUNTIME_TIMEOUT_S,
            )
        )
        log = self._layout.log("runtime")
        try:
            await asyncio.wait({finding}, timeout=PATIENCE_S)
            if not finding.done():
                say("Looking for MegEngine. The first installation takes some minutes.")
                await _repeat(log, finding)
            return device.MegEngineRuntime(python=(await finding).strip().splitlines()[-1])
        except PartError:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-2:]
            complain("\n".join(lines))
            return device.MegEngineRuntime(
                problem=" ".join(lines)[:500] or "MegEngine was not found."
            )
        finally:
            finding.cancel()

    async def _build_agent(self) -> None:
        """Build the agent for other devices; a failure is printed and does not end the site."""
        # only for this platform: devices on other machines cannot reach the loopback address
        command = [sys.executable, "-m", "agent.install", "--machine", "this"]
        command += ["--out", str(self._layout.agent_files)]
        try:
            await self._supervisor.run("bundle", command, timeout_s=BUNDLE_TIMEOUT_S)
        except PartError as error:
            complain(f"Devices cannot download the agent from this site: {error}")

    async def _join(self, runtime: device.MegEngineRuntime) -> None:
        config, address = self._layout.agent_config, self._site.address
        if self._code is not None:
            command = device.enrol_command(self._layout, address, self._code)
            await self._supervisor.run("enrol", command)
        device.update_config(config, address, runtime)
        if runtime.python:
            await self._measure(config)
        await self._supervisor.start(parts.agent(config))
        say(f"Its device is configured in {config}.")
        say("docs/devices.md explains how to allow scripts on it.")

    async def _measure(self, config: Path) -> None:
        """Measure the machine's peak performance, which uses all cores for about 10 s."""
        command = [sys.executable, "-m", "agent", "runtime", "check", "--missing"]
        try:
            await self._supervisor.run("limits", [*command, "--config", str(config)])
        except PartError as error:
            # roofline and advice work without it, and `agent runtime check` can repeat it
            complain(str(error))

    # -- the demo -------------------------------------------------------------------------------

    async def _show(self, runtime: device.MegEngineRuntime) -> int:
        """Run the demo's client with its output on our terminal; return its exit code."""
        if not runtime.python:
            complain("The demo needs a device with MegEngine; see the messages above.")
            return 1
        command = [sys.executable, "-m", "webprofile.operations.devserver.demo", self._site.address]
        command += [str(self._demo_account), str(self._layout.examples), runtime.python]
        return await self._supervisor.show(command)


async def _repeat(log: Path, until: asyncio.Future[str]) -> None:
    """Print the lines that a program appends to its log, as progress of a long operation."""
    seen = 0
    while not until.done():
        await asyncio.wait({until}, timeout=1.0)
        text = await asyncio.to_thread(log.read_text, "utf-8", "replace")
        lines = text.splitlines()
        for line in lines[seen:]:
            say(f"  {line}")
        seen = len(lines)


async def run_site(layout: Layout, lock: HomeLock, options: argparse.Namespace) -> int:
    """Run a site until a signal, a part's failure or the demo's end; return an exit code."""
    ports = choose_ports(options.port)
    layout.make_folders()
    folder, is_temporary = socket_folder(layout)
    site = parts.SiteConfig(layout, load_keys(layout), folder / "redis.sock", *ports)
    lock.announce(site.address)
    remember(site)
    environment = parts.environment(site, os.environ)
    supervisor = Supervisor(layout, environment, lock.descriptor)
    supervisor.open(layout.temporary, *([folder] if is_temporary else []))
    return await until_end(supervisor, _Start(site, supervisor, options).bring_up())


def remember(site: parts.SiteConfig) -> None:
    """Store the ports and the socket of this start, for `manage`."""
    facts = {"redis": str(site.redis_socket), "port": site.port, "storage": site.storage_port}
    write_private(site.layout.home / RUNNING_NAME, json.dumps(facts) + "\n")


def manage(layout: Layout, arguments: list[str]) -> int:
    """Replace this process by manage.py, with the ports and the socket of the last start.

    Return an exit code if no site has been started in this home folder.
    """
    try:
        facts = json.loads((layout.home / RUNNING_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        complain("No site has been started in this folder: run `make run` first.")
        return 1
    site = parts.SiteConfig(
        layout, load_keys(layout), Path(facts["redis"]), facts["port"], facts["storage"]
    )
    environment = parts.environment(site, os.environ)
    command = parts.manage(*arguments)
    os.chdir(REPOSITORY)
    os.execve(command[0], command, environment)


async def until_end(supervisor: Supervisor, bring_up: Coroutine[Any, Any, int]) -> int:
    """Run `bring_up` until its end, a failure or a signal; stop all parts; return an exit code."""
    signalled = _watch_signals(supervisor)
    work = asyncio.create_task(bring_up)
    stop = asyncio.create_task(signalled.wait())
    try:
        ends: set[asyncio.Future[Any]] = {work, stop, supervisor.failure}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return _verdict(work, supervisor.failure, signalled=stop.done())
    finally:
        work.cancel()
        stop.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)
        say("Stopping.")
        await supervisor.close()


def _verdict(work: asyncio.Task[int], failure: asyncio.Future[None], *, signalled: bool) -> int:
    """Return the exit code; print an error of a part."""
    error = failure.exception() if failure.done() else None
    if error is None and work.done():
        error = work.exception()
    if isinstance(error, PartError):
        complain(f"The site is stopped because a part failed: {error}")
        return 1
    if error is not None:
        raise error
    return work.result() if work.done() and not signalled else 0


def _watch_signals(supervisor: Supervisor) -> asyncio.Event:
    """Return an event that the first signal sets; the second signal skips the grace periods."""
    signalled = asyncio.Event()

    def on_signal() -> None:
        if signalled.is_set():
            supervisor.hurry()
        signalled.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    return signalled
