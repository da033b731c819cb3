"""Users, devices and their secrets, made in one process: `manage.py shell -c "..."` calls it."""

import json
import sys

from accounts.services import user_ensure
from accounts.tokens.access import token_issue
from bench.chaos.plan import AGENTS
from workers.services import worker_ensure
from workers.tokens import code_issue, code_redeem

USERS = 4


def make() -> None:
    """Print {"agents": {name: token}, "users": [access token]} as one line of JSON."""
    agents = {}
    for name in AGENTS:
        _, agents[name] = code_redeem(code_issue(worker_ensure(name=name)))
    users = []
    for number in range(USERS):
        user, _ = user_ensure(email=f"user-{number}@example.com")
        _, secret = token_issue(user, name="chaos", scopes=["read", "write"], days=30)
        users.append(secret)
    sys.stdout.write(json.dumps({"agents": agents, "users": users}) + "\n")
