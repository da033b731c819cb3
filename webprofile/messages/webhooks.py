"""User-facing messages for webhooks: error codes and outcomes of calls."""

from typing import Any

from django.utils.translation import gettext_lazy as _

WEBHOOKS: dict[str, Any] = {
    "webhook_url": _(
        "Give an address that starts with https://, has no password in it, and the port 443 or "
        "8443."
    ),
    "webhook_events": _("Choose at least one event that you may be told of."),
    "webhook_limit": _("You have 10 webhooks, the most that is kept. Remove one first."),
    "webhook_busy": _("Some tests wait already. Try again when they are through."),
    "webhook_unknown_name": _("The name of the address is not known."),
    "webhook_refused": _(
        "The address leads into a network that this site does not call: only the internet, and "
        "what its operator allows."
    ),
    "webhook_tls": _("No trusted connection: look at the certificate of your server."),
    "webhook_timeout": _("Your server did not answer in time."),
    "webhook_unreachable": _("Your server could not be reached, or broke the connection."),
    "webhook_status": _("Your server answered with an error, or led elsewhere."),
    "webhook_broke": _("This site could not make the call. Its operator finds why in the log."),
    "webhook_not_yours": _("Not called: only administrators are told of devices."),
    "webhook_disabled": _("Not called: the webhook was disabled."),
}
