from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WorkersConfig(AppConfig):
    name = "workers"
    verbose_name = _("Devices and pools")
