"""allauth's forms for security keys, for answers that no key gave."""

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.webauthn import forms
from django.utils.translation import gettext_lazy as _

#: characters that a browser lets into a name
NAME_LIMIT = 60
#: fido2 takes any JSON for what a browser would send
_MALFORMED = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


class AddForm(forms.AddWebAuthnForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name")
        self.fields["name"].widget.attrs["maxlength"] = NAME_LIMIT

    def clean(self) -> Any:
        with _wrong_if_malformed():
            return super().clean()


class RenameForm(forms.EditWebAuthnForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name")
        self.fields["name"].widget.attrs["maxlength"] = NAME_LIMIT


class AuthenticateForm(forms.AuthenticateWebAuthnForm):
    def clean_credential(self) -> Any:
        with _wrong_if_malformed():
            return super().clean_credential()


class ReauthenticateForm(forms.ReauthenticateWebAuthnForm):
    def clean_credential(self) -> Any:
        with _wrong_if_malformed():
            return super().clean_credential()


@contextlib.contextmanager
def _wrong_if_malformed() -> Iterator[None]:
    try:
        yield
    except _MALFORMED as error:
        raise get_adapter().validation_error("incorrect_code") from error
