"""The agent as one file for each kind of device, and what puts it there and keeps it new.

`build` makes the files, `start` is the first module of one, `install` the script that a device is
given, `launch` the process that stays while the agent is replaced.
"""
