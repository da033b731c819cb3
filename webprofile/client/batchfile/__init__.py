"""Reader of batch files, which describe many tasks; used by the client and `manage.py submit`.

It imports neither the server nor the network: `pip install .` installs it with the client.
"""
