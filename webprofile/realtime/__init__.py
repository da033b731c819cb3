"""The channel layer and the base classes of WebSocket consumers."""
