"""The device's state around a run: what it was, what disturbed the run, and waiting for calm.

`observe.Observer` looks before, during and after a run; `gate.wait_until_calm` waits before it.
"""
