"""A run's inputs as npy files, for every kind of runtime; the readers: `agent.protocol.inputs`."""
