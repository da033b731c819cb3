"""Starts everything a site needs on one machine: `python -m webprofile.operations.devserver run`.

The parts are those of a cluster (Redis, S3, web server, actors, sweep, an agent), each a process
of its own.
"""
