"""Forms of django-allauth for security keys (WebAuthn) that also reject malformed responses."""

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.webauthn import forms
from django.utils.translation import gettext_lazy as _

#: maximum length of a key's name in the browser, in characters
NAME_LIMIT = 60
#: exceptions that fido2 raises for JSON that is not a response of a browser; it does not validate
#: its input
_MALFORMED = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


class AddSecurityKeyForm(forms.AddWebAuthnForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name")
        self.fields["name"].widget.attrs["maxlength"] = NAME_LIMIT

    def clean(self) -> Any:
        with _reject_malformed():
            return super().clean()


class RenameSecurityKeyForm(forms.EditWebAuthnForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name")
        self.fields["name"].widget.attrs["maxlength"] = NAME_LIMIT


class SecurityKeyForm(forms.AuthenticateWebAuthnForm):
    def clean_credential(self) -> Any:
        with _reject_malformed():
            return super().clean_credential()


class SecurityKeyReauthenticateForm(forms.ReauthenticateWebAuthnForm):
    def clean_credential(self) -> Any:
        with _reject_malformed():
            return super().clean_credential()


@contextlib.contextmanager
def _reject_malformed() -> Iterator[None]:
    """Convert the exceptions of malformed input to the validation error of a wrong code."""
    try:
        yield
    except _MALFORMED as error:
        raise get_adapter().validation_error("incorrect_code") from error
