"""Create users, devices and their tokens. Runs in `manage.py shell -c "..."`."""

import json
import sys

from accounts.services import ensure_user
from accounts.tokens.access import issue_token
from bench.chaos.plan import AGENTS
from workers.services import ensure_worker
from workers.tokens import issue_code, redeem_code

USERS = 4


def make() -> None:
    """Print {"agents": {name: token}, "users": [access token]} as one line of JSON."""
    agents = {}
    for name in AGENTS:
        _, agents[name] = redeem_code(issue_code(ensure_worker(name=name)))
    users = []
    for number in range(USERS):
        user, _ = ensure_user(email=f"user-{number}@example.com")
        _, secret = issue_token(user, name="chaos", scopes=["read", "write"], days=30)
        users.append(secret)
    sys.stdout.write(json.dumps({"agents": agents, "users": users}) + "\n")
