"""Program that measures one pair of a paired comparison on a device.

The agent starts it by path with its own Python, in the sandbox of runs. It uses only the standard
library and imports nothing of the agent.
"""
