"""WebSocket routes of the site."""

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.urls import path, re_path

from profiles.consumers import OpenedConsumer
from tasks.consumers import TaskConsumer, TaskListConsumer
from tasks.dispatch.consumer import AgentConsumer
from webprofile.realtime.consumers import NoPages, NoSuchSocket, OwnPages

browser = OwnPages(
    AuthMiddlewareStack(
        URLRouter(
            [
                path("ws/tasks/", TaskListConsumer.as_asgi()),
                path("ws/tasks/<int:task_id>/", TaskConsumer.as_asgi()),
                path("ws/profiles/opened/<int:upload_id>/", OpenedConsumer.as_asgi()),
                re_path(r"^.*$", NoSuchSocket.as_asgi()),
            ]
        )
    )
)

#: agents authenticate with a token, not with a session cookie
agent = NoPages(AgentConsumer.as_asgi())
websocket = URLRouter([path("ws/agent/", agent), re_path(r"", browser)])
