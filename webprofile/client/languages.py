"""In which language the site is asked to answer: that of the terminal."""

import re
from collections.abc import Mapping

#: in gettext's order; the first one that says anything holds
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
_LOCALE = re.compile(r"([a-z]{2,3})(?:[_-]([A-Za-z]{2,4}))?(?:[.@].*)?", re.ASCII)


def accept_language(environment: Mapping[str, str]) -> str:
    """A value for the header: `zh-CN, zh` for `zh_CN.UTF-8`; `en` where no language is asked for.

    `LANGUAGE` is a list that goes before the others, unless they ask for the plain locale C.
    """
    locale = next(filter(None, (environment.get(name, "") for name in _VARIABLES)), "")
    wanted = [locale]
    if _LOCALE.fullmatch(locale):
        wanted = [*environment.get("LANGUAGE", "").split(":"), locale]
    found: list[str] = []
    for each in wanted:
        if match := _LOCALE.fullmatch(each):
            language, place = match.groups()
            found += [f"{language}-{place}", language] if place else [language]
    return ", ".join(dict.fromkeys(found)) or "en"
