"""What an administrator fills in about users."""

from typing import Any, cast

from django import forms
from django.contrib.auth.forms import BaseUserCreationForm
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from workers.models import Worker


class AddUserForm(BaseUserCreationForm):
    """E-mail and password; saved by `create_account`."""

    administrator = forms.BooleanField(
        label=_("Administrator"), required=False, help_text=_("Has every right.")
    )

    class Meta:
        model = User
        fields = ("email",)


class GrantForm(forms.Form):
    """Which private devices several users get or lose."""

    workers = forms.ModelMultipleChoiceField(
        label=_("Private devices"),
        queryset=Worker.objects.filter(is_public=False, retired_at=None).order_by("name"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one device.")},
    )

    def __init__(self, *args: Any, held_by: list[User] | None = None, **kwargs: Any) -> None:
        """held_by: offer only devices that one of these users has."""
        super().__init__(*args, **kwargs)
        if held_by is not None:
            field = cast("forms.ModelMultipleChoiceField[Worker]", self.fields["workers"])
            assert field.queryset is not None
            field.queryset = field.queryset.filter(grants__user__in=held_by).distinct()
