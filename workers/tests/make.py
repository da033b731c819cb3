"""A simulated agent on the WebSocket of the server, enrolled devices, and admin actions."""

import uuid

from channels.db import database_sync_to_async
from django.db.models import F

from agent.protocol.messages import AttemptAccepted, Hello, decode_server, encode
from tasks.dispatch import gateway
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import FACTS, RUNTIMES, make_user, make_waiting_task, make_worker
from tasks.tests.sockets import SocketClient
from webprofile.asgi import application
from workers.models import Worker
from workers.tokens import issue_code, redeem_code


def run_admin_action(client, worker: Worker, name: str, **data: str):
    """Run an action on the admin page of a device; return the response after redirects."""
    return client.post(f"/admin/workers/worker/{worker.pk}/act/{name}/", data, follow=True)


class FakeAgent:
    """A client of the agent's WebSocket that uses the routing of the server."""

    def __init__(self, token: str) -> None:
        self.token = token
        headers = [(b"authorization", f"Bearer {token}".encode())]
        self.socket = SocketClient(application, "/ws/agent/", headers=headers)

    async def connect(self) -> "FakeAgent":
        await self.socket.connect()
        return self

    async def send(self, message) -> None:
        await self.socket.send_to(
            text_data=message if isinstance(message, str) else encode(message)
        )

    async def receive(self):
        return decode_server(await self.socket.receive_from())

    async def close_code(self) -> int:
        event = await self.socket.receive_output()
        assert event["type"] == "websocket.close"
        return event["code"]

    async def accept(self, order) -> None:
        """Accept an order, and receive the acknowledgement."""
        await self.send(AttemptAccepted(attempt=order.attempt))
        assert (await self.receive()).of == "attempt.accepted"

    async def send_hello(self, **fields) -> object:
        await self.send(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES, **fields))
        return await self.receive()


@database_sync_to_async
def enrol_device(name: str = "box") -> tuple[Worker, str]:
    """Return a new worker that is offline, with its token."""
    return redeem_code(issue_code(make_worker(name, online=False)))


@database_sync_to_async
def submit_task_for(worker: Worker) -> Task:
    """Return a new task, which is assigned to the worker if it is online and has a free slot."""
    worker.refresh_from_db()
    task = make_waiting_task(owner=make_user(uuid.uuid4().hex), worker=worker)
    assign_waiting([worker.pk])
    return task


async def run_dispatcher() -> None:
    """Assign waiting tasks to free slots, as the dispatcher does."""
    await database_sync_to_async(assign_waiting)()


@database_sync_to_async
def expire_orders() -> None:
    """Move attempts into the past, so that their orders count as lost."""
    Attempt.objects.update(created_at=F("created_at") - gateway.ORDER_PATIENCE)


async def connect_agent(token: str, **fields) -> FakeAgent:
    """Return an agent that is connected and has received its welcome."""
    agent = await FakeAgent(token).connect()
    welcome = await agent.send_hello(**fields)
    assert welcome.type == "welcome"
    return agent


async def connect_busy_agent(name: str = "box"):
    """Return the agent of a new device, and the order of a task that it has received."""
    worker, token = await enrol_device(name)
    agent = await connect_agent(token)
    await submit_task_for(worker)
    order = await agent.receive()
    assert order.type == "start"
    return agent, order
