"""The server's entry point: HTTP and sockets in one process."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.prod")
http = get_asgi_application()  # loads the apps, so it comes before what imports models

from webprofile.routing import websocket  # noqa: E402

application = ProtocolTypeRouter({"http": http, "websocket": websocket})
