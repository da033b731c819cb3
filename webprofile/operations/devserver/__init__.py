"""Development server: run a complete site on one machine.

`python -m webprofile.operations.devserver run` starts Redis, S3 storage, web server, actors, the
dispatcher, sweep and an agent, each as a separate process, as in a cluster.
"""
