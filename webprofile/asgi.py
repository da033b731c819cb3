"""ASGI entry point of the server: HTTP and WebSockets in one process."""

import os
import sys

from channels.routing import ProtocolTypeRouter
from django.conf import settings
from django.core.asgi import get_asgi_application

from webprofile.observability import trace_context

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.prod")
if trace_context.are_kept():
    # adds a middleware, so it runs before Django loads the middleware
    from webprofile.observability import request_traces

    request_traces.begin()
http = get_asgi_application()  # loads the apps, so it runs before the imports of models


from webprofile.body_limit import BodyLimit  # noqa: E402
from webprofile.garbage import loaded_spare  # noqa: E402
from webprofile.observability.requests import RequestMiddleware  # noqa: E402
from webprofile.routing import websocket  # noqa: E402
from webprofile.storage import storage  # noqa: E402

#: the forms that send files without JavaScript
limits = dict.fromkeys(("/profiles/opened/", "/tasks/new/"), settings.OPENED_FORM_LIMIT_BYTES)
limited = BodyLimit(http, settings.BODY_LIMIT_BYTES, limits)
application = RequestMiddleware(ProtocolTypeRouter({"http": limited, "websocket": websocket}))
# A request that computes holds the interpreter for 5 ms whenever another one returns from the
# database or storage, dozens of times for a page. Shorter intervals hardly slow it down.
sys.setswitchinterval(0.0005)
# before the server listens, so that no request waits for it
storage.prepare_clients()
loaded_spare()
