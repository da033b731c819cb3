"""Devices in the API: what they are, what they can do, how busy they are."""
