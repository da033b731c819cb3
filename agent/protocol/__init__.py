"""The protocol between agent and server; the only part of the agent that the server imports."""
