"""The file that asks for many tasks, read the same by the client and by `manage.py submit`.

It knows neither the server nor the network: `pip install .` installs it with the client.
"""
