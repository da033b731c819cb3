"""State machine of an agent that sends valid, mutated, truncated and repeated frames in any order.

Invariants: the server closes connections only with documented codes, answers only with frames of
the protocol, keeps the integrity of the database, and does not change attempts of other devices.
"""

import asyncio
import contextlib
import json
import random
import uuid
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.urls import path
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from accounts.models import User
from agent.protocol.messages import MAX_FRAME_BYTES, CloseCode, decode_server, encode
from agent.protocol.messages import messages as wire
from profiles.integrity import broken_rows
from tasks.dispatch.consumer import TASK_NAME, AgentConsumer
from tasks.lifecycle import cancel
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import (
    FACTS,
    MD5,
    RUNTIMES,
    make_attempt,
    make_user,
    make_waiting_task,
    make_worker,
)
from webprofile.errors import DomainError
from webprofile.tests.fuzz.json_changes import change, nested
from workers.models import Worker
from workers.tokens import issue_code, redeem_code

T = TypeVar("T")

#: the documented close codes; an unexpected error closes with 1000 or 1011
CLOSE_CODES = {int(code) for code in CloseCode}
MAX_TASKS = 4
#: counts of frames, answers and close codes, for the report
SEEN: Counter[str] = Counter()
_ATTEMPTS = st.sampled_from(["own", "own", "own", "ended", "other", "unknown"])


def _file(number: int) -> wire.FileOffer:
    names = ("profile.json", "log.txt", "measurement.json", "dump.zip", "x" * 100)
    return wire.FileOffer(name=names[number % 5], size_bytes=number**9 % 2**40, md5=MD5)


#: queue of the running machine, with one entry for each handled frame
HANDLED: list[asyncio.Queue[None]] = []


class _SignallingConsumer(AgentConsumer):
    """The consumer, which signals when it has handled a frame."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            await super().receive(text_data=text_data, bytes_data=bytes_data)
        finally:
            HANDLED[-1].put_nowait(None)


application = URLRouter([path("ws/agent/", _SignallingConsumer.as_asgi())])


class AgentMachine(RuleBasedStateMachine):
    """One device with a connection, and another one that must not be affected."""

    def __init__(self) -> None:
        super().__init__()
        # closing the runner cancels pending tasks, which would otherwise use a closed event loop
        self.runner = asyncio.Runner()
        HANDLED[:] = [asyncio.Queue()]
        self.socket: WebsocketCommunicator | None = None
        self.last = ""

    @initialize()
    def begin(self) -> None:
        self._create_rows()
        self.before = self._other_rows()

    def _create_rows(self) -> None:
        self.owner = make_user("alice")
        self.worker, self.token = redeem_code(issue_code(make_worker("own", online=True)))
        other = make_worker("other")
        self.other = make_attempt(make_waiting_task(self.owner, other))

    # -- events at the site ---------------------------------------------------------------------

    @rule()
    def submit_task(self) -> None:
        is_installed = self.worker.runtimes.filter(version="1.13.0", problem="").exists()
        if is_installed and Task.objects.count() < MAX_TASKS:
            with contextlib.suppress(DomainError):  # the device may not be able to run it any more
                make_waiting_task(self.owner, self.worker)

    @rule()
    def cancel_task(self) -> None:
        attempt = self._live()
        if attempt:
            cancel.cancel_tasks([attempt.task_id], by=self.owner)

    @rule()
    def run_sweep_and_dispatcher(self) -> None:
        sweep()
        assign_waiting()

    # -- actions of the agent -------------------------------------------------------------------

    @rule(good=st.booleans(), sends_hello=st.booleans())
    def connect(self, good: bool, sends_hello: bool) -> None:
        self._connect(good=good)
        if sends_hello:
            self._send_hello()

    def _connect(self, *, good: bool) -> None:
        self._disconnect()
        header = f"Bearer {self.token if good else 'mgw_none'}".encode("latin-1")
        self.socket = WebsocketCommunicator(
            application, "/ws/agent/", headers=[(b"authorization", header)]
        )
        self._run(self.socket.connect(timeout=60))

    def _send_hello(self) -> None:
        self._send(encode(wire.Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES)))

    @rule(ownership=_ATTEMPTS, kind=st.integers(0, 7), number=st.integers(0, 2**20))
    def send_valid_frame(self, ownership: str, kind: int, number: int) -> None:
        self._send(encode(self._message(ownership, kind, number)))

    @rule(
        ownership=_ATTEMPTS,
        kind=st.integers(0, 7),
        number=st.integers(0, 2**20),
        seed=st.integers(0),
    )
    def send_changed_frame(self, ownership: str, kind: int, number: int, seed: int) -> None:
        frame = json.loads(encode(self._message(ownership, kind, number)))
        try:
            self._send(json.dumps(change(frame, random.Random(seed))))
        except (IndexError, OverflowError):
            return

    @rule(end=st.integers(0, 400), more=st.text(max_size=20))
    def send_truncated_frame(self, end: int, more: str) -> None:
        self._send(self.last[:end] + more)

    @rule(times=st.integers(2, 12))
    def repeat_frame(self, times: int) -> None:
        for _ in range(times):
            self._send(self.last)

    @rule(text=st.text(max_size=200) | st.just("x" * (MAX_FRAME_BYTES + 1)), seed=st.integers(0))
    def send_any_text(self, text: str, seed: int) -> None:
        chance = random.Random(seed)
        self._send(nested(chance.randint(1, 20_000), chance) if seed % 3 == 0 else text)

    @rule(data=st.binary(max_size=200))
    def send_bytes(self, data: bytes) -> None:
        self._send(data)

    @rule()
    def disconnect(self) -> None:
        self._disconnect()

    # -- invariants -----------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self._disconnect()
            if hasattr(self, "before"):
                broken = [str(row) for row in broken_rows()]
                assert not broken, broken
                assert self._other_rows() == self.before, "an attempt of another device changed"
        finally:
            self.runner.close()
            Task.objects.all().delete()
            Worker.objects.all().delete()
            User.objects.all().delete()

    def _other_rows(self) -> Any:
        attempts = Attempt.objects.filter(pk=self.other.pk).values()
        tasks = Task.objects.filter(pk=self.other.task_id).values()
        counts = (self.other.log.count(), self.other.artifacts.count())
        return list(attempts), list(tasks), counts, self.other.task.events.count()

    def _live(self) -> Attempt | None:
        return Attempt.objects.filter(worker=self.worker, ended_at=None).first()

    def _attempt_of(self, ownership: str) -> uuid.UUID:
        if ownership == "other":
            return self.other.pk
        mine = Attempt.objects.filter(worker=self.worker)
        attempts = mine.filter(ended_at=None) if ownership == "own" else mine.exclude(ended_at=None)
        attempt = attempts.order_by("pk").first() if ownership != "unknown" else None
        return attempt.pk if attempt else uuid.UUID("5f0c1d2e-3b4a-4e8e-8e6f-7a8b9c0d1e2f")

    def _message(self, ownership: str, kind: int, number: int) -> Any:
        attempt = self._attempt_of(ownership)
        running = frozenset({attempt}) if number % 2 else frozenset()
        files = tuple(_file(number + index) for index in range(number % 4))
        if kind == 0:
            return wire.Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES, running=running)
        if kind == 1:
            return wire.Heartbeat(sent_at=number, running=running)
        if kind == 2:
            return wire.AttemptAccepted(attempt=attempt)
        if kind == 3:
            return wire.AttemptStarted(attempt=attempt, at=number, command="x" * (number % 99))
        if kind == 4:
            text = "\x00\u2069 log \U0001f600"[number % 4 :]
            return wire.AttemptLog(attempt=attempt, seq=number + 1, offset=0, size=9, text=text)
        if kind == 5:
            return wire.AttemptUploads(attempt=attempt, files=files)
        reasons = list(wire.EndReason)
        reason = wire.EndReason.EXITED if kind == 6 else reasons[number % len(reasons)]
        return wire.AttemptFinished(
            attempt=attempt, at=1, reason=reason, exit_code=number % 3 - 1, files=files
        )

    def _send(self, frame: str | bytes) -> None:
        self.last = frame if isinstance(frame, str) and frame else self.last
        if self.socket is None:
            self._connect(good=True)
            self._send_hello()
        if self.socket is None:
            return
        if isinstance(frame, str):
            text = frame.encode("utf-8", "replace").decode()  # as a transport encodes it
            event = {"type": "websocket.receive", "text": text}
        else:
            event = {"type": "websocket.receive", "bytes": frame}
        self._run(self.socket.send_input(event))
        self._receive()

    def _receive(self) -> None:
        """Read all answers; raises the error of the server if it has failed."""
        if self._run(self._answers()):
            self._disconnect()

    async def _answers(self) -> bool:
        """Read all answers; return True if the WebSocket was closed."""
        assert self.socket is not None
        SEEN["frames"] += 1
        handled = asyncio.ensure_future(HANDLED[-1].get())
        await asyncio.wait(
            [handled, self.socket.future], timeout=60, return_when=asyncio.FIRST_COMPLETED
        )
        assert handled.done() or self.socket.future.done(), "no answer within a minute"
        if not handled.cancel():
            handled.result()
        if self.socket.future.done():
            self.socket.future.result()
        await _settled()
        while not self.socket.output_queue.empty():
            event = self.socket.output_queue.get_nowait()
            if event["type"] == "websocket.close":
                SEEN[f"closed {event['code']}"] += 1
                assert event["code"] in CLOSE_CODES, event
                return True
            answer = decode_server(event["text"])
            assert len(event["text"].encode()) <= MAX_FRAME_BYTES
            SEEN[answer.type] += 1
        return False

    def _disconnect(self) -> None:
        if self.socket is not None:
            self._run(self.socket.disconnect(timeout=60))
            self._run(_settled())
        self.socket = None

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)


async def _settled() -> None:
    """Wait for the tasks that handle frames: their threads need the running event loop."""
    while tasks := {task for task in asyncio.all_tasks() if task.get_name() == TASK_NAME}:
        await asyncio.wait(tasks, timeout=60)
