from django.apps import AppConfig


class WebprofileConfig(AppConfig):
    name = "webprofile"

    def ready(self) -> None:
        from webprofile import checks  # registers them  # noqa: F401
