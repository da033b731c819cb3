"""Fuzzers, each run for an hour by hand: the agent's socket, the API, and whatever parses bytes.

What they find becomes a test of the part that failed; nothing here is a test itself.
"""
