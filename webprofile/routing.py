"""Which socket leads where."""

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import path, re_path

from tasks.consumers import NoSuchSocket, TaskConsumer, TaskListConsumer
from workers.consumers import AgentConsumer

browser = AllowedHostsOriginValidator(
    AuthMiddlewareStack(
        URLRouter(
            [
                path("ws/tasks/", TaskListConsumer.as_asgi()),
                path("ws/tasks/<int:task_id>/", TaskConsumer.as_asgi()),
                re_path(r"^.*$", NoSuchSocket.as_asgi()),
            ]
        )
    )
)

#: an agent is no browser: it brings a token instead of an origin and a cookie
websocket = URLRouter([path("ws/agent/", AgentConsumer.as_asgi()), re_path(r"", browser)])
