"""A user's program under MegEngine's Profiler.

Runs in the interpreter of a runtime (Python 3.6 to 3.10, with MegEngine), always in a sandbox,
never in the site's or the agent's: only the standard library and megengine may be imported here,
and nothing else of this project. Start it by the folder's path: `<python> agent/script_runner ...`.
"""
