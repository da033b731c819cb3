"""The connection to the server: socket, outbox, file transfers, retries, heartbeats."""
