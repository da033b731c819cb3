"""Fields of responses that several apps have: numbers that may be unknown, and lists."""

from rest_framework import serializers


def number(help_text: str) -> serializers.FloatField:
    """Return a field for a number that a profile may lack; nan and infinity are null too."""
    return serializers.FloatField(allow_null=True, help_text=f"{help_text} Null: unknown.")


def numbers(help_text: str) -> serializers.ListField:
    """Return a field for a list of numbers, each of which may be null."""
    return serializers.ListField(
        child=serializers.FloatField(allow_null=True), help_text=f"{help_text} Null: unknown."
    )


def whole(help_text: str) -> serializers.ListField:
    """Return a field for a list of integers."""
    return serializers.ListField(child=serializers.IntegerField(), help_text=help_text)


def texts(help_text: str) -> serializers.ListField:
    """Return a field for a list of texts."""
    return serializers.ListField(child=serializers.CharField(), help_text=help_text)
