"""Serializers of accounts: credentials, token pairs, access tokens and the current user."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.models import AccessToken, User
from accounts.tokens.access import DAYS_LIMIT
from webprofile import fields


class Credentials(fields.Body):
    """The credentials of a user."""

    email = fields.Text(max_length=254, help_text="The account's e-mail.")
    password = fields.Text(
        max_length=4096, trim_whitespace=False, help_text="The account's password."
    )
    code = fields.OptionalText(
        max_length=100,
        help_text="Of the authenticator app, or a recovery code, if there is a second factor.",
    )


class RefreshBody(fields.Body):
    """A refresh token."""

    refresh = fields.Text(max_length=4096, help_text="The `refresh` part of a pair.")


class PairAnswer(serializers.Serializer):
    """An access token and the refresh token that belongs to it."""

    access = serializers.CharField(help_text="For `Authorization: Bearer`.")
    refresh = serializers.CharField(help_text="Valid for one renewal.")
    access_expires_at = serializers.DateTimeField(help_text="Expiry of `access`.")
    refresh_expires_at = serializers.DateTimeField(help_text="Expiry of `refresh`.")


class AccessTokenBody(fields.Body):
    """Name, scopes and lifetime of a new access token."""

    name = fields.Text(max_length=100, help_text="Purpose of the token.")
    scopes = fields.List(
        child=fields.Choice(AccessToken.Scope.choices),
        min_length=1,
        max_length=len(AccessToken.Scope.values),
        help_text="Scopes of the token; `admin`, for administrators, adds objects of other users.",
    )
    days = fields.Integer(min_value=1, max_value=DAYS_LIMIT, help_text="Days until it expires.")


class IssuedTokenAnswer(serializers.ModelSerializer[AccessToken]):
    """A new access token with its secret."""

    scopes = serializers.ListField(
        child=serializers.ChoiceField(AccessToken.Scope.choices), help_text="Scopes of the token."
    )
    secret = serializers.SerializerMethodField(
        help_text="Only contained in this response; for `Authorization: Bearer`."
    )

    class Meta:
        model = AccessToken
        fields = (
            "id", "name", "prefix", "scopes", "created_at", "expires_at", "last_used_at",
            "revoked_at", "secret",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Purpose of the token."},
            "prefix": {"help_text": "The secret's first characters."},
            "created_at": {"help_text": "When it was created."},
            "expires_at": {"help_text": "Expiry."},
            "last_used_at": {"help_text": "When it was last used, to the minute; null if never."},
            "revoked_at": {"help_text": "When it was revoked, or null."},
        }

    def get_secret(self, token: AccessToken) -> str:
        return str(self.context["secret"])


class MeAnswer(serializers.ModelSerializer[User]):
    """The current user."""

    is_administrator = serializers.BooleanField(
        source="is_staff", help_text="Whether this request has administrator permissions."
    )
    scopes = serializers.SerializerMethodField(help_text="Scopes of this request.")

    class Meta:
        model = User
        fields = (
            "id", "email", "is_administrator", "scopes", "date_joined", "language", "time_zone",
            "theme", "task_limit",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Id of the user."},
            "email": {"help_text": "The login."},
            "date_joined": {"help_text": "When the account was created."},
            "language": {"help_text": "`en`, `zh-hans`, or empty for the setting of the browser."},
            "time_zone": {
                "help_text": "Name in the tz database; empty for the setting of the browser."
            },
            "theme": {"help_text": "`light`, `dark`, or empty for the setting of the system."},
            "task_limit": {
                "help_text": "Maximum number of waiting and running tasks; null for the default."
            },
        }

    @extend_schema_field(
        serializers.ListField(child=serializers.ChoiceField(AccessToken.Scope.choices))
    )
    def get_scopes(self, user: User) -> list[str]:
        return list(self.context["scopes"])
