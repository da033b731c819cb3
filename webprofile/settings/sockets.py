"""How much sockets may say: frames at once, and each second after that."""

import environ

env = environ.Env()

#: an agent sends its log in pieces of 16 KiB when a measurement is over: 4 MiB at once
AGENT_FRAMES_BURST = env.int("AGENT_FRAMES_BURST", default=1000)
AGENT_FRAMES_PER_S = env.float("AGENT_FRAMES_PER_S", default=50.0)
#: in which a server process works on frames, each with a connection of DATABASE_POOL; 0: the one
#: that pages' sockets have too
AGENT_THREADS = env.int("AGENT_THREADS", default=4)
#: a page says where it is, once, and again after a break
READER_FRAMES_BURST = env.int("READER_FRAMES_BURST", default=40)
READER_FRAMES_PER_S = env.float("READER_FRAMES_PER_S", default=4.0)
#: open pages of one user, in each server process
SOCKETS_PER_USER = env.int("SOCKETS_PER_USER", default=100)
