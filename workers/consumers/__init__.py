"""The agents' sockets: frames become calls of the gateway, its answers become frames."""
