"""Find, install and describe the MegEngine versions on this machine.

A runtime is a command prefix (`command.command_for`): a `load_and_run` binary, or an interpreter
with the MegEngine wheel.
"""
