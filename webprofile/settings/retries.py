"""How long what failed for no fault of its task waits before it is tried again."""

import environ

env = environ.Env()

#: after a failure whose cause may last; each further one waits four times as long
RETRY_PAUSE_S = env.float("RETRY_PAUSE_S", default=10.0)
#: and none longer than this
RETRY_PAUSE_MOST_S = env.float("RETRY_PAUSE_MOST_S", default=600.0)
