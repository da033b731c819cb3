"""The device's state around a run: snapshots, disturbances, and waiting until the device is idle.

`gate.wait_until_idle` waits before a run. `observe.Observer` observes the device before, during and
after it.
"""
