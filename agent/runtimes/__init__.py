"""MegEngine versions on this machine: found, installed, described.

A runtime is a command prefix (`command.command_for`), either of a `load_and_run` binary or of an
interpreter with the MegEngine wheel.
"""
