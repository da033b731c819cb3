"""Convert the inputs of a task to npy files; `agent.protocol.inputs` parses and checks them."""
