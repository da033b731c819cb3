"""Pages of devices, what agents ask by HTTP, and the agent itself to download."""
