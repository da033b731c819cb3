"""load_and_run's command line on top of the MegEngine wheel.

Runs in the interpreter of a runtime (Python 3.6 to 3.10, with MegEngine), never in the site's or
the agent's: only the standard library, numpy and megenginelite may be imported here, and nothing
else of this project. Start it by the folder's path: `<python> agent/load_and_run MODEL [flags]`.

It times and profiles through megenginelite, which is the library behind `load_and_run --lite`:
same graph, same timing, same profile. Output lines and exit codes are load_and_run's. What the
library would take silently and wrongly (input of another type, an object array, a model cut short)
is refused before the run. The four error classes of our own are listed in `errors.py`.
"""
