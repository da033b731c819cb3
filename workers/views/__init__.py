"""Pages of devices, HTTP endpoints of agents, and downloads of the agent."""
