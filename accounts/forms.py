"""Customized forms of django-allauth, and the forms of the account pages."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from allauth.account import forms as allauth_forms
from allauth.account.fields import EmailField as AllauthEmailField
from allauth.account.models import EmailAddress
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa import app_settings as mfa_settings
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as factor_forms
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn import forms as key_forms
from allauth.socialaccount.forms import SignupForm as AllauthSocialSignupForm
from django import forms
from django.conf import settings
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.forms.utils import flatatt
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from accounts.models import EMAIL_LENGTH_LIMIT, AccessToken, User, Webhook, canonical_email
from accounts.preferences import time_zones
from accounts.tokens.access import DAYS_LIMIT
from accounts.webhooks.addresses import LONGEST_URL
from webprofile.errors import DomainError

#: maximum length of a security key's name in the browser, in characters
KEY_NAME_LIMIT = 60
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


class EmailField(AllauthEmailField):
    """An e-mail field that returns the canonical form of an address.

    Chinese input methods may type full-width letters, which are converted.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", EMAIL_LENGTH_LIMIT)
        super().__init__(**kwargs)
        self.widget.attrs.pop("placeholder", None)

    def to_python(self, value: Any) -> str:
        return canonical_email(super().to_python(value))


class LoginForm(allauth_forms.LoginForm):
    """The login form; it offers a password reset only if the site has a mail server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"] = EmailField(label=_("E-mail"))
        self.fields["login"].widget.attrs["autocomplete"] = "username"
        self.fields["remember"].label = _("Keep me logged in")
        self.order_fields(["login", "password", "remember"])
        _adapt_fields(self)


class SignupForm(allauth_forms.SignupForm):
    email = EmailField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = _("E-mail")
        _check_password_while_typing(self)

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        """Create the user, or go to the login page if another request has just done so.

        A double click sends the form twice, and the browser shows the second response.
        """
        try:
            with transaction.atomic():
                saved: tuple[User | None, HttpResponse | None] = super().try_save(request)
        except IntegrityError:
            return None, redirect("account_login")
        return saved


class SocialSignupForm(AllauthSocialSignupForm):
    email = EmailField(label=_("E-mail"))


class ResetPasswordForm(allauth_forms.ResetPasswordForm):
    email = EmailField(label=_("E-mail"))


class AddEmailForm(allauth_forms.AddEmailForm):
    email = EmailField(label=_("E-mail"))

    def save(self, request: HttpRequest) -> EmailAddress:
        """Add the address, unless the mail to verify it cannot be sent."""
        try:
            address: EmailAddress = super().save(request)
        except DomainError:
            EmailAddress.objects.filter(user=self.user, email=self.cleaned_data["email"]).delete()
            raise
        return address


class ResetPasswordKeyForm(allauth_forms.ResetPasswordKeyForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _label_new_password(self)
        _check_password_while_typing(self)


class SetPasswordForm(allauth_forms.SetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_password_while_typing(self)


class ChangePasswordForm(allauth_forms.ChangePasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["oldpassword"].label = _("Current password")
        _label_new_password(self)
        _check_password_while_typing(self)


class ReauthenticateForm(allauth_forms.ReauthenticateForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _adapt_fields(self)


class _CodeForm(forms.Form):
    """A form with a code of the second factor, which is accepted once.

    django-allauth remembers a used code for one period only, although MFA_TOTP_TOLERANCE makes a
    code valid for longer, and it does not remember the code that set up the app.
    """

    user: User

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].label = _("Code")
        _adapt_fields(self)

    def clean_code(self) -> str:
        code: str = super().clean_code()  # type: ignore[misc]
        valid_s = mfa_settings.TOTP_PERIOD * (2 * mfa_settings.TOTP_TOLERANCE + 1)
        key = f"accounts.used_code:{self.user.pk}:{normalize_user_code(code)}"
        if not cache.add(key, True, timeout=valid_s):
            raise get_adapter().validation_error("incorrect_code")
        return code


class ActivateAppForm(_CodeForm, ActivateTOTPForm):
    """Set up an authenticator app."""


class SecondFactorForm(_CodeForm, factor_forms.AuthenticateForm):
    """The code of the second factor, at login."""


class SecondFactorReauthenticateForm(_CodeForm, factor_forms.ReauthenticateForm):
    """The code of the second factor, before an action that requires reauthentication."""


@contextmanager
def _reject_malformed() -> Iterator[None]:
    """Convert the exceptions of malformed input to the validation error of a wrong code."""
    try:
        yield
    except _MALFORMED as error:
        raise get_adapter().validation_error("incorrect_code") from error


class _KeyNameForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name")
        self.fields["name"].widget.attrs["maxlength"] = KEY_NAME_LIMIT


class AddSecurityKeyForm(_KeyNameForm, key_forms.AddWebAuthnForm):
    def clean(self) -> Any:
        with _reject_malformed():
            return super().clean()


class RenameSecurityKeyForm(_KeyNameForm, key_forms.EditWebAuthnForm):
    """Rename a security key."""


class SecurityKeyForm(key_forms.AuthenticateWebAuthnForm):
    """A security key as the second factor, at login."""

    def clean_credential(self) -> Any:
        with _reject_malformed():
            return super().clean_credential()


class SecurityKeyReauthenticateForm(SecurityKeyForm, key_forms.ReauthenticateWebAuthnForm):
    """A security key, before an action that requires reauthentication."""


#: languages by their own names, which users recognize whatever the language of the page is
LANGUAGE_NATIVE_NAMES = [("en", "English"), ("zh-hans", "中文")]


class _LongSelect(forms.Select):
    """A select with hundreds of options, for each of which Django would render a template."""

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        widget = self.get_context(name, value, attrs)["widget"]
        options = format_html_join(
            "",
            '<option value="{}"{}>{}</option>',
            (
                (option["value"], flatatt(option["attrs"]), option["label"])
                for _group, members, _index in widget["optgroups"]
                for option in members
            ),
        )
        return format_html(
            '<select name="{}"{}>{}</select>', name, flatatt(widget["attrs"]), options
        )


class PreferencesForm(forms.ModelForm):
    """Language, time zone and colours; an empty value stands for that of the browser."""

    class Meta:
        model = User
        fields = ("language", "time_zone", "theme")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["language"] = forms.ChoiceField(
            label=_("Language"),
            choices=[("", _("Browser default")), *LANGUAGE_NATIVE_NAMES],
            required=False,
        )
        chosen = self.instance.time_zone
        names = time_zones() if chosen in ("", *time_zones()) else (chosen, *time_zones())
        self.fields["time_zone"] = forms.ChoiceField(
            label=_("Time zone"),
            choices=[("", _("Browser setting")), *((name, name) for name in names)],
            required=False,
            help_text=_("All dates are shown in this time zone."),
            widget=_LongSelect,
        )
        self.fields["theme"].label = _("Colours")
        for field in self.fields.values():
            field.widget.attrs["class"] = "field__input"


class TokenForm(forms.Form):
    """Name, scopes and lifetime of a new access token; `issue_token` validates them."""

    name = forms.CharField(
        label=_("Name"),
        help_text=_("What the token is for, such as a script or a machine."),
        required=False,
    )
    days = forms.IntegerField(label=_("Days until it expires"), required=False)

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scopes = AccessToken.Scope
        self.fields["scopes"] = forms.MultipleChoiceField(
            label=_("Permissions"),
            choices=[c for c in scopes.choices if user.is_staff or c[0] != scopes.ADMIN],
            initial=[scopes.READ],
            widget=forms.CheckboxSelectMultiple,
            required=False,
        )
        self.order_fields(["name", "scopes", "days"])
        self.fields["days"].initial = 90
        self.fields["days"].widget.attrs |= {"min": 1, "max": DAYS_LIMIT}
        self.fields["name"].widget.attrs |= {"maxlength": 100, "autocomplete": "off"}


class WebhookForm(forms.Form):
    """URL and events of a new webhook; `add_webhook` validates them."""

    url = forms.CharField(
        label=_("Address"), help_text=_("The URL of your server. It must start with https://.")
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        events = Webhook.Event
        self.fields["events"] = forms.MultipleChoiceField(
            label=_("Events"),
            choices=[c for c in events.choices if user.is_staff or c[0] == events.TASK_FINISHED],
            initial=[events.TASK_FINISHED],
            widget=forms.CheckboxSelectMultiple,
            required=False,
        )
        self.fields["url"].widget.attrs |= {
            "maxlength": LONGEST_URL, "autocomplete": "off", "inputmode": "url",
            "spellcheck": "false",
        }  # fmt: skip


def _adapt_fields(form: forms.Form) -> None:
    """Remove placeholders, which repeat the labels, and the password reset if mail is not set up.

    Without a mail server the help text of the current password refers to an administrator.
    """
    for field in form.fields.values():
        field.widget.attrs.pop("placeholder", None)
    passwords = form.fields.keys() & {"password", "oldpassword"}
    for name in passwords if not settings.HAS_MAIL_SERVER else ():
        form.fields[name].help_text = _("Forgot your password? Ask an administrator for a new one.")


def _label_new_password(form: forms.Form) -> None:
    form.fields["password1"].label = _("New password")
    form.fields["password2"].label = _("New password (again)")


def _check_password_while_typing(form: forms.Form) -> None:
    """Mark the field of the new password for `js/account/password.js`, which validates it."""
    _adapt_fields(form)
    form.fields["password1"].widget.attrs["data-password"] = ""
