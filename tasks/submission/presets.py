"""Presets of options that users save under a name, for the form and for requests."""

from collections.abc import Mapping

from django.db import transaction

from accounts.models import User
from agent.protocol.options import OptionError, Value, check_options
from tasks.models import OptionPreset
from webprofile.errors import DomainError
from webprofile.texts import check_text

NAME_LIMIT = 40
PRESETS_LIMIT = 20


@transaction.atomic
def save_option_preset(
    owner: User, *, name: str, options: Mapping[str, Value]
) -> tuple[OptionPreset, bool]:
    """Store options under a name; replace the preset of this name.

    Files of options are not part of a preset. Returns the preset, and whether it is new. Raises
    DomainError character_bad, preset_name_bad, preset_empty, preset_limit, option_*.
    """
    name = " ".join(name.split())
    check_text(name, "name")
    if not name or len(name) > NAME_LIMIT:
        raise DomainError("preset_name_bad", field="name", limit=NAME_LIMIT)
    try:
        chosen = check_options(options, profiled=False)
    except OptionError as error:
        raise DomainError(
            f"option_{error.code}", field=error.option, option=error.option, limit=error.limit
        ) from error
    if not chosen:
        raise DomainError("preset_empty", field="options")
    # the lock serializes concurrent requests, so that the limit holds
    User.objects.select_for_update().get(pk=owner.pk)
    own = OptionPreset.objects.filter(owner=owner)
    if own.count() >= PRESETS_LIMIT and not own.filter(name=name).exists():
        raise DomainError("preset_limit", field="name", limit=PRESETS_LIMIT)
    return own.update_or_create(owner=owner, name=name, defaults={"options": chosen})


def with_preset(owner: User, name: str, options: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options of the user's preset with these options, which win, on top of them.

    name: empty for no preset

    Raises DomainError preset_unknown.
    """
    if not name:
        return dict(options)
    preset = OptionPreset.objects.filter(owner=owner, name=name).first()
    if preset is None:
        raise DomainError("preset_unknown", field="option_preset", name=name)
    return {**preset.options, **options}
