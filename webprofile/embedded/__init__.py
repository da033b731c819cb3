"""Starts everything a site needs on one machine: `python -m webprofile.embedded run`.

The parts are those of a cluster (Redis, S3, web server, actors, sweep, an agent), each a process
of its own.
"""
