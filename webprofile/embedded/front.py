"""Stands before the S3 server and answers browsers' preflight requests.

A presigned PUT carries Content-MD5. A browser first asks with OPTIONS whether it may send that
header, and rclone's answer has a fixed list without it (1.75; `--response-header` does not reach
that answer). All else passes through as it is, the signed Host header included, so signatures stay
valid.
MinIO and S3 need no such thing: their answer is configured on the bucket.

`python -S -m webprofile.embedded.front PORT STORAGE_PORT`
"""

import asyncio
import contextlib
import re
import sys

HEAD_LIMIT_BYTES = 64 << 10
CHUNK_BYTES = 256 << 10
IDLE_S = 120.0
LINGER_S = 5.0
PREFLIGHT = (
    b"HTTP/1.1 204 No Content\r\n"
    b"Access-Control-Allow-Origin: *\r\n"
    b"Access-Control-Allow-Methods: GET, HEAD, PUT\r\n"
    b"Access-Control-Allow-Headers: Content-Type, Content-MD5\r\n"
    b"Access-Control-Max-Age: 3600\r\n"
    b"Connection: close\r\n\r\n"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_OURS = re.compile(rb"\r\n(?:Connection|Expect):[^\r\n]*", re.IGNORECASE)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, storage_port: int
) -> None:
    """One request per connection: only a connection's first request is looked at."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        try:
            async with asyncio.timeout(IDLE_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(b"HTTP/1.1 431 Headers Too Large\r\nConnection: close\r\n\r\n")
        else:
            if head.startswith(b"OPTIONS "):
                writer.write(PREFLIGHT)
            else:
                await _pass_on(head, reader, writer, storage_port)
        await _close_gently(reader, writer)
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()


async def _pass_on(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, storage_port: int
) -> None:
    """Hand on a request and its answer.

    Storage is asked whether it wants the body (Expect): it refuses a bad signature without reading
    on, and the reset that follows would swallow its answer.
    """
    from_storage, to_storage = await asyncio.open_connection("127.0.0.1", storage_port)
    try:
        to_storage.write(
            _OURS.sub(b"", head[:-2]) + b"Connection: close\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = await from_storage.readuntil(b"\r\n\r\n")
        if answer != CONTINUE:
            writer.write(answer)
            await _pump(from_storage, writer)
            return
        if b"\r\nexpect:" in head.lower():
            writer.write(CONTINUE)
        upload = asyncio.create_task(_pump(reader, to_storage))
        try:
            await _pump(from_storage, writer)
        finally:
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)
    finally:
        to_storage.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()


async def _close_gently(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read what the client still sends: closed with bytes unread, a connection is reset."""
    writer.write_eof()
    async with asyncio.timeout(LINGER_S):
        while await reader.read(CHUNK_BYTES):
            pass


async def main(port: int, storage_port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve(reader, writer, storage_port)

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=HEAD_LIMIT_BYTES)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
