"""From rows to the device and back: the agent's socket and its gateway."""
