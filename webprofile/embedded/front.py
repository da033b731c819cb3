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
LINGER_S = 2.0
PREFLIGHT = (
    b"HTTP/1.1 204 No Content\r\n"
    b"Access-Control-Allow-Origin: *\r\n"
    b"Access-Control-Allow-Methods: GET, HEAD, PUT\r\n"
    b"Access-Control-Allow-Headers: Content-Type, Content-MD5\r\n"
    b"Access-Control-Max-Age: 3600\r\n"
    b"Connection: close\r\n\r\n"
)
_CONNECTION = re.compile(rb"\r\nConnection:[^\r\n]*", re.IGNORECASE)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, storage_port: int
) -> None:
    """One request per connection: only a connection's first request is looked at."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(IDLE_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                writer.write(b"HTTP/1.1 431 Headers Too Large\r\nConnection: close\r\n\r\n")
                head = b""
        if head.startswith(b"OPTIONS "):
            writer.write(PREFLIGHT)
        elif head:
            head = _CONNECTION.sub(b"", head[:-2]) + b"Connection: close\r\n\r\n"
            await _pass_on(head, reader, writer, storage_port)
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()


async def _pass_on(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, storage_port: int
) -> None:
    from_storage, to_storage = await asyncio.open_connection("127.0.0.1", storage_port)
    to_storage.write(head)
    upload = asyncio.create_task(_pump(reader, to_storage))
    try:
        # the answer's end is the end: storage may refuse before it has read the whole body
        await _pump(from_storage, writer)
    finally:
        upload.cancel()
        await asyncio.gather(upload, return_exceptions=True)
        to_storage.close()
    # closed with bytes unread, the connection would be reset and the answer lost
    writer.write_eof()
    async with asyncio.timeout(LINGER_S):
        while await reader.read(CHUNK_BYTES):
            pass


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()


async def main(port: int, storage_port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve(reader, writer, storage_port)

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=HEAD_LIMIT_BYTES)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
