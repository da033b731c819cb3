"""Build, install and update the agent as a single file.

`build` makes one zipapp per kind of device, and `start` is its entry point. `install` is the
script that a device downloads and runs. `launch` is the parent process of the agent, which keeps
running while `update` replaces the agent's file.
"""
