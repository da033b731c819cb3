"""Fork server of `profiles.exports.process`: `python -m profiles.exports FD`."""

import socket
import sys

import django

django.setup()

from profiles.exports.process import load_before_fork, main  # noqa: E402
from profiles.ingest.fork_server import serve  # noqa: E402

load_before_fork()
serve(socket.socket(fileno=int(sys.argv[1])), main)
