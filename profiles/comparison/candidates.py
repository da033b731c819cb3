"""Find results that can be compared: those visible to the user, the most similar first."""

import calendar
import datetime
import re
from collections.abc import Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case, Exists, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.utils.translation import gettext as _

from accounts.models import User
from profiles.comparison.comparison import FEWEST, MOST
from profiles.comparison.messages import origin_of
from profiles.exports.provenance import title_of
from profiles.models import Profile, ProfileUpload
from profiles.selectors import baseline_profile, visible_profiles
from tasks.models import Purpose, TaskFile

PAGE_SIZE = 20
#: most words of a search that are used
_MOST_WORDS = 8
_DAY = re.compile(r"\d{4}-\d\d(-\d\d)?$")
_NUMBER = re.compile(r"#?(\d{1,9})$")
#: other results by their similarity: the pinned baseline, the same model file, a model of the same
#: name, another model
_PINNED, _SAME_FILE, _SAME_NAME, _OTHER = range(4)


def chosen_profiles(user: User, ids: Sequence[int | None]) -> list[Profile] | None:
    """Return the profiles with these numbers, in this order; None if one of them is not visible."""
    by_number = {
        profile.pk: profile for profile in _ready(user).filter(pk__in=list(filter(None, ids)))
    }
    profiles = [by_number.get(number or 0) for number in ids]
    return [profile for profile in profiles if profile] if all(profiles) else None


def problem_of(ids: Sequence[int | None]) -> str:
    """Return why these profiles cannot be compared, as a sentence; empty if they can."""
    twice = next((number for number in ids if ids.count(number) > 1), None)
    if twice is not None:
        return _("A result is selected twice. Compared with itself it has no differences.")
    if len(ids) > MOST:
        return _("At most %(most)s results can be compared. Remove some.") % {"most": MOST}
    if len(ids) == 1:
        return _("Select at least one more result.")
    return "" if len(ids) >= FEWEST else _("Choose at least two results.")


def named(profile: Profile) -> dict[str, Any]:
    """Return the profile with its title and origin, as the pages of comparisons list it."""
    return {"profile": profile, "title": title_of(profile), "origin": origin_of(profile)}


def candidates(user: User, chosen: Sequence[Profile], *, find: str, page: str) -> "Page[Any]":
    """Return a page of results that can be added; `object_list` holds them as `named` returns them.

    Their `kin` is `pinned` for the baseline of the first chosen result's model and device, and
    `same_file` or `same_name` for another run of this model.

    find: words that must all occur in the model's name, the device, the version or the name of an
        imported file; `#12` is a task, `2026-11` or `2026-11-20` a date
    """
    # not the health checks of devices, which administrators can see
    by_users = Q(attempt=None) | Q(attempt__task__purpose=Purpose.USER)
    with_operators = _ready(user).filter(by_users, operators__gt=0)
    ready = with_operators.exclude(pk__in=[profile.pk for profile in chosen])
    for word in find.split()[:_MOST_WORDS]:
        ready = ready.filter(_matches(word))
    ready = ready.annotate(kin=_kin(chosen)).order_by("kin", "-pk")
    made: Page[Any] = Paginator(ready, PAGE_SIZE).get_page(page)
    words = {_PINNED: "pinned", _SAME_FILE: "same_file", _SAME_NAME: "same_name"}
    made.object_list = [
        {**named(profile), "kin": words.get(profile.kin, "")} for profile in made.object_list
    ]
    return made


def _ready(user: User) -> QuerySet[Profile]:
    """Return the visible profiles with the related rows that a comparison displays."""
    profiles = visible_profiles(user).filter(
        Q(upload__isnull=True) | Q(upload__state=ProfileUpload.State.READY)
    )
    return profiles.select_related("attempt__measurement").prefetch_related("attempt__task__files")


def _models() -> QuerySet[TaskFile]:
    """Return the model file of the profile in the outer query."""
    return TaskFile.objects.filter(
        task=OuterRef("attempt__task"), kind=TaskFile.Kind.MODEL
    ).order_by()


def _matches(word: str) -> Q:
    condition = (
        Q(Exists(_models().filter(name__icontains=word)))
        | Q(attempt__task__worker__name__icontains=word)
        | Q(attempt__task__runtime_version__istartswith=word)
        | Q(upload__name__icontains=word)
    )
    if number := _NUMBER.match(word):
        condition |= Q(attempt__task_id=int(number[1]))
    if _DAY.match(word):
        for name in ("attempt__task__created_at", "upload__created_at"):
            condition |= _within(name, word)
    return condition


def _within(name: str, word: str) -> Q:
    year, month, *day = map(int, word.split("-"))
    try:
        first = datetime.date(year, month, day[0] if day else 1)
    except ValueError:
        return Q()
    last = first if day else first.replace(day=calendar.monthrange(year, month)[1])
    return Q(**{f"{name}__date__gte": first, f"{name}__date__lte": last})


def _kin(chosen: Sequence[Profile]) -> Case:
    names, sums, pinned = set(), set(), set()
    for profile in chosen[:1]:
        names.add(title_of(profile))
        if profile.attempt is not None:
            baseline = baseline_profile(profile.attempt.task)
            pinned |= {baseline.pk} if baseline else set()
            sums |= {f.md5 for f in profile.attempt.task.files.all() if f.kind == "model"}
    return Case(
        When(pk__in=pinned, then=Value(_PINNED)),
        When(Exists(_models().filter(md5__in=sums)), then=Value(_SAME_FILE)),
        When(Exists(_models().filter(name__in=names)), then=Value(_SAME_NAME)),
        When(upload__name__in=names, then=Value(_SAME_NAME)),
        default=Value(_OTHER),
        output_field=IntegerField(),
    )
