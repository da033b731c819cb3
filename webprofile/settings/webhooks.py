"""Calls of users' own addresses (webhooks)."""

import ipaddress

import environ

env = environ.Env()

#: networks of the operator's own that webhooks may reach too: 10.1.0.0/16,fd00::/8
WEBHOOK_ALLOWED_NETWORKS = [
    ipaddress.ip_network(each) for each in env.list("WEBHOOK_ALLOWED_NETWORKS", default=[])
]
#: certificates that such networks' receivers are signed with, beside those of the system
WEBHOOK_CA_FILE = env.str("WEBHOOK_CA_FILE", default="")
