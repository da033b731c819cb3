"""Run a user's program under MegEngine's Profiler.

This package runs in the interpreter of a runtime (Python 3.6 to 3.10, with MegEngine), always in a
sandbox, never in the interpreter of the server or the agent. It may import only the standard
library and MegEngine, and nothing else of this project. Start it by the folder's path:
`<python> agent/script_runner ...`.
"""
