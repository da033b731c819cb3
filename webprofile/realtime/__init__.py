"""The channel layer, and the base of browsers' sockets."""
