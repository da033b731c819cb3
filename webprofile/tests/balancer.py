"""TCP load balancer that passes each connection to the first port that accepts it."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def balancer(ports: Sequence[int]) -> Iterator[int]:
    """Serve on a free port of the loopback address until the block ends; yield the port."""
    loop = asyncio.new_event_loop()
    up: list[int] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with await asyncio.start_server(
            lambda reader, writer: _pass_on(ports, reader, writer), "127.0.0.1", 0
        ) as server:
            up.append(server.sockets[0].getsockname()[1])
            ready.set()
            await stop.wait()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    ready.wait(10)
    try:
        yield up[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def _pass_on(
    ports: Sequence[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    for port in ports:
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
            return
    writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until either side closes, then close the writer."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
