"""`python -m webprofile.web`: uvicorn with its options, waking once a second instead of ten times.

Each time the server wakes up, it takes up to half a millisecond of a core, for which a model that
is measured on the same machine waits (docs/decisions/judged-by-waiting.md). The server therefore
notices up to a second later that it should stop.
"""

import asyncio

import uvicorn


async def _main_loop(server: uvicorn.Server) -> None:
    """Do the work of each tick (header `Date`, end) once a second."""
    while not await server.on_tick(0):  # noqa: ASYNC110 - a signal handler sets the attribute
        await asyncio.sleep(1)


if __name__ == "__main__":
    uvicorn.Server.main_loop = _main_loop  # type: ignore[assignment,method-assign]
    uvicorn.main()
