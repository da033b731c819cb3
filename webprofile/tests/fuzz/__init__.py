"""Fuzzers of the agent's WebSocket, of the API and of all parsers, run by hand for an hour each.

A finding becomes a test of the part that failed. No module here is a test itself.
"""
