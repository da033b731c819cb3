"""load_and_run's command line for the MegEngine wheel, which does not contain load_and_run.

This package runs in the interpreter of a runtime (Python 3.6 to 3.10, with MegEngine), never in
that of the server or the agent. It may import only the standard library, numpy, MegEngine and
megenginelite, and nothing else of this project. Start it by the folder's path:
`<python> agent/load_and_run MODEL [flags]`.

Models are timed and profiled through megenginelite, the library behind `load_and_run --lite`: same
graph, same timing, same profile. Output lines and exit codes are those of load_and_run. Inputs
that the library would accept but misread (another dtype, an object array, a truncated model) are
rejected before the run. `errors.py` lists the four error classes that load_and_run does not have.
"""
