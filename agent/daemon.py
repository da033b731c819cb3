"""`agent run`: create the agent's components, and run until a signal or a refusal by the server."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from agent import __version__
from agent.config import Config, ConfigError, RuntimeEntry
from agent.device.canary import DeviceCanary
from agent.device.cores import Cores, CoresUnavailable, available_cores, choose_cores, pin_self
from agent.device.facts import read_facts
from agent.device.gpu import find_gpus
from agent.device.quiet import QuietMode
from agent.device.settings import Machine
from agent.execution.attempt import Tools
from agent.execution.manager import AttemptManager
from agent.execution.process_pool import WarmPool
from agent.execution.runner import adopt_orphans, choose_limits, drop_privileges
from agent.execution.sandbox import Sandbox, find_sandbox
from agent.execution.script_rules import ScriptRules
from agent.execution.script_switch import ScriptSwitch
from agent.execution.spool import Spool
from agent.install import update
from agent.install.update import UpdateFailed, Updater
from agent.inventory import LocalRuntime, take_inventory
from agent.link.cache import ContentCache
from agent.link.heartbeat import HeartbeatProcess
from agent.link.outbox import Outbox
from agent.link.retries import Policies
from agent.link.session import AgentTooOld, Session
from agent.link.transfers import Transfer
from agent.protocol.messages import FEATURE_ENOUGH, FEATURE_SCRIPTS, Hello
from agent.protocol.notes import Note
from agent.runtimes.describe import SLOW
from agent.tune import TuneError, describe_tuning

log = logging.getLogger(__name__)

#: pause until runtimes that were too slow are described again, and the longest after more pauses
_SLOW_AGAIN_S = 60.0
_SLOW_AGAIN_MOST_S = 3600.0


async def serve(config: Config) -> None:
    """Run the agent until SIGTERM or SIGINT.

    Raises SessionRefused, SpoolBusy, OSError; Replaced if the agent has updated itself.
    """
    for warning in config.warnings:
        log.warning("config_warning text=%r", warning)
    _log_tuning(config)
    drop_privileges()
    adopt_orphans()
    runtimes = await _describe(config, config.runtimes)
    await _until_signal(work(config, Policies(), runtimes))


async def _describe(config: Config, entries: Iterable[RuntimeEntry]) -> dict[str, LocalRuntime]:
    runtimes = await asyncio.to_thread(
        lambda: take_inventory(entries, config.c_opr_libs, config.checks, has_gpu=bool(find_gpus()))
    )
    for runtime in runtimes.values():
        log.info("runtime version=%s problem=%r", runtime.info.version, _text(runtime.info.problem))
    return runtimes


def _log_tuning(config: Config) -> None:
    try:
        if text := describe_tuning(config.spool, Machine()):
            log.warning("tuning text=%r", text)
    except TuneError as exc:
        log.warning("tuning_unknown text=%r", str(exc))


async def work(
    config: Config,
    policies: Policies,
    runtimes: dict[str, LocalRuntime],
    sandbox: Sandbox | None = None,
) -> None:
    """Work for the server until cancelled. Raises SessionRefused, SpoolBusy, OSError, Replaced.

    If `sandbox` is None, the sandbox of this machine is used.
    """
    cores = _share_cores(config)
    spool = Spool(config.spool)
    transfer = Transfer(policies, ContentCache(config.spool / "cache", config.cache_bytes))
    heartbeat = await HeartbeatProcess.start(config.server, config.token, cores.own)
    canary = DeviceCanary(config.spool / "canary.json", cores.measured) if config.canary else None
    try:
        if canary is not None:
            await canary.start()
        run_cores = cores.measured or tuple(sorted(available_cores()))
        facts = await asyncio.to_thread(read_facts, config.server, config.labels, run_cores)
        limits = choose_limits(config, facts, cores)
        sandbox = sandbox or await _find_sandbox(config)
        determine = partial(ScriptRules.determine, sandbox, runtimes.values(), config.spool)
        tools = Tools(
            outbox=Outbox(policies.repeat_s),
            spool=spool,
            transfer=transfer,
            policies=policies,
            runtimes=runtimes,
            warm=WarmPool(spool, runtimes if config.warm else {}, limits, sandbox),
            quiet_mode=QuietMode(config.gate, heartbeat, cores.measured),
            facts=facts,
            canary=canary,
            libraries={name: str(path) for name, path in config.c_opr_libs.items()},
            limits=limits,
            sandbox=sandbox,
            require_sandbox=config.require_sandbox,
            scripts=await asyncio.to_thread(determine) if config.allow_scripts else ScriptRules(),
            log_limit_bytes=config.log_limit_bytes,
            stop_grace_s=config.grace_s,
        )
        log.info("sandbox problem=%r", _text(tools.sandbox.problem))
        await _work(config, tools, determine)
    finally:
        if canary is not None:
            await canary.close()
        await heartbeat.close()
        await transfer.close()
        spool.close()


def _share_cores(config: Config) -> Cores:
    """Bind this process to its own cores. Raises ConfigError."""
    try:
        cores = choose_cores(config.cores)
    except CoresUnavailable as exc:
        raise ConfigError(f"[measure] cores: {exc}") from exc
    pin_self(cores.own)
    log.info("cores measured=%s own=%s", cores.measured, cores.own)
    return cores


async def _find_sandbox(config: Config) -> Sandbox:
    visible = (*config.show, *config.c_opr_libs.values())
    return await asyncio.to_thread(
        find_sandbox, config.hidden_folders(), config.secret_files, visible
    )


async def _work(config: Config, tools: Tools, determine: Callable[[], ScriptRules]) -> None:
    attempts = AttemptManager(tools)
    tools.quiet_mode.held = attempts.held
    attempts.recover()

    def greet() -> Hello:
        return Hello(
            agent_version=__version__,
            features=_features(attempts.scripts, tools.runtimes.values()),
            facts=tools.facts,
            runtimes=tuple(runtime.info for runtime in tools.runtimes.values()),
            running=attempts.held(),
        )

    updater = Updater(config.server, attempts.held, allowed=config.update)
    attempts.leaves_order = updater.leaves_order
    session = Session(
        config,
        greet,
        attempts,
        tools,
        welcomed=lambda welcome: updater.welcomed(welcome.agent_version),
    )
    retry = _describe_slow(config, tools.runtimes, attempts, determine, session.greet_again)
    works = [_serve_or_update(session, updater), updater.run(), retry]
    if config.file is not None:
        switch = ScriptSwitch(
            config.file,
            attempts,
            determine=determine,
            greet_again=session.greet_again,
            every_s=tools.policies.watch_s,
        )
        works.append(switch.run())
    try:
        await _first_end(*works)
    finally:
        await attempts.stop()
        await tools.warm.close()


async def _describe_slow(
    config: Config,
    runtimes: dict[str, LocalRuntime],
    attempts: AttemptManager,
    determine: Callable[[], ScriptRules],
    greet_again: Callable[[], Awaitable[None]],
) -> None:
    """While idle, describe again the runtimes that were too slow at the start, until cancelled.

    Those that are usable then are added to `runtimes` and reported to the server.
    """
    pause_s = _SLOW_AGAIN_S
    while True:
        await asyncio.sleep(pause_s)
        slow = [entry for entry in config.runtimes if _is_slow(runtimes.get(entry.version))]
        if not slow or attempts.held():
            continue
        pause_s = min(2 * pause_s, _SLOW_AGAIN_MOST_S)
        described = await _describe(config, slow)
        if all(map(_is_slow, described.values())):
            continue
        runtimes.update(described)
        if attempts.scripts.allowed:
            attempts.scripts = await asyncio.to_thread(determine)
        attempts.rest()
        await greet_again()


def _is_slow(runtime: LocalRuntime | None) -> bool:
    problem = runtime.info.problem if runtime else None
    return problem is not None and problem.code in SLOW


def _features(scripts: ScriptRules, runtimes: Iterable[LocalRuntime]) -> frozenset[str]:
    """Return what this agent and its device offer beyond runs of models."""
    problem = scripts.problem(runtimes)
    if problem and scripts.allowed:
        log.warning("scripts_impossible problem=%r", _text(problem))
    return frozenset({FEATURE_ENOUGH} if problem else {FEATURE_ENOUGH, FEATURE_SCRIPTS})


def _text(problem: Note | None) -> str:
    return str(problem or "")


async def _serve_or_update(session: Session, updater: Updater) -> None:
    """Run the session; if the server rejects this agent as too old, update it if that is allowed.

    An agent that may update itself retries forever, because nobody would restart it: the update may
    succeed later, and the server may be downgraded.
    """
    while True:
        try:
            await session.run()
        except AgentTooOld:
            # undelivered results need this version, so the device's owner must act
            if not updater.can_update or updater.is_busy or updater.is_on_trial:
                raise
        try:
            await updater.replace()
        except (UpdateFailed, OSError) as problem:
            log.warning("update_failed text=%s", problem)
        await asyncio.sleep(update.AGAIN_S)


async def _first_end(*works: Coroutine[Any, Any, None]) -> None:
    """Run all coroutines until one ends; raise its exception, if any."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _until_signal(working: Coroutine[Any, Any, None]) -> None:
    """Run the agent until SIGTERM or SIGINT stops it; raise the exception of any other end."""
    running = asyncio.create_task(working)
    loop = asyncio.get_running_loop()
    signalled = False

    def stop(number: signal.Signals) -> None:
        nonlocal signalled
        signalled = True
        log.info("stopping signal=%s", number.name)
        running.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        await running
    except asyncio.CancelledError:
        if not signalled:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
