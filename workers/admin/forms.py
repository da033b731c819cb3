"""Forms of devices on the admin site."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Pool, Worker
from workers.services import validate_labels


class LabelsField(forms.CharField):
    """A text area with one label a line, as `name = value`; its value is a dict of strings."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 40, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{name} = {text}" for name, text in sorted(value.items()))
        return value

    def to_python(self, value: Any) -> Any:
        labels: dict[str, str] = {}
        for line in str(value or "").splitlines():
            if not line.strip():
                continue
            name, equals, text = (part.strip() for part in line.partition("="))
            if not equals:
                raise ValidationError(_("Write each label as name = value: “%s”") % line[:60])
            if name in labels:
                raise ValidationError(_("There are two labels called “%s”.") % name)
            labels[name] = text
        try:
            validate_labels(labels)
        except DomainError as error:
            raise ValidationError(word(error)) from error
        return labels

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


class WorkerForm(forms.ModelForm):
    """Name, slots, labels and pools of a device; actions change everything else."""

    labels = LabelsField(
        label=_("Labels"),
        required=False,
        help_text=_(
            "One a line, as chip = Kirin 990. They hide labels of the same name that the device's "
            "own configuration gives."
        ),
    )
    pools = forms.ModelMultipleChoiceField(
        label=_("Pools"),
        queryset=Pool.objects.all(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = Worker
        fields = ("name", "is_public", "slots", "labels")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["pools"].initial = self.instance.pools.all()
        if "pools" in self.fields and not Pool.objects.exists():
            self.fields["pools"].help_text = _(
                "There is no pool yet. Pools are made below “Pools”."
            )


class UsersForm(forms.Form):
    """E-mail addresses of users to whom a private device is granted."""

    emails = forms.CharField(
        label=_("E-mails of users"),
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 4, "cols": 50, "spellcheck": "false"}),
        help_text=_("One a line, or with commas between them."),
    )

    def clean_emails(self) -> list[str]:
        return [part for part in re.split(r"[\s,;]+", self.cleaned_data["emails"]) if part]
