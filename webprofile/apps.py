from typing import Any, cast

import dramatiq
from django.apps import AppConfig
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string
from django_dramatiq.apps import DjangoDramatiqConfig


class WebprofileConfig(AppConfig):
    name = "webprofile"
    default = True

    def ready(self) -> None:
        from webprofile import checks  # registers them  # noqa: F401


class AdminConfig(SimpleAdminConfig):
    """Let `webprofile.urls` and the system checks import the admin modules.

    The modules import most of the site, which takes a second; commands without pages skip that.
    """

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_admin_modules, checks.Tags.admin)


def _check_admin_modules(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **kwargs)


class DramatiqConfig(DjangoDramatiqConfig):
    """Create the broker when the first actor is declared.

    django_dramatiq creates it while Django starts and so imports the client of Redis or RabbitMQ
    and the metrics, which delays management commands that send nothing by half a second.
    """

    def __init__(self, app_name: str, app_module: Any) -> None:
        AppConfig.__init__(self, app_name, app_module)
        dramatiq.set_encoder(self.select_encoder())
        dramatiq.set_broker(cast(dramatiq.Broker, SimpleLazyObject(_make_broker)))


def _make_broker() -> dramatiq.Broker:
    configured = settings.DRAMATIQ_BROKER
    middleware = [import_string(path)() for path in configured["MIDDLEWARE"]]
    broker: dramatiq.Broker = import_string(configured["BROKER"])(
        middleware=middleware, **configured["OPTIONS"]
    )
    return broker
