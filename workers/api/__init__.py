"""Devices in the API: their properties, options, queues and pools."""
