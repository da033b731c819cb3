"""Canonical form of e-mail addresses, which serve as login names."""

import unicodedata

from django.utils.encoding import punycode

#: limit of forms; the time to convert a domain grows with the square of its length
LENGTH_LIMIT = 254


def canonical_email(text: str) -> str:
    """Write an address as it is stored and compared.

    Case, width and compatibility characters (NFKC) make no difference, and a domain of other
    letters is written in ASCII, just as Django sends mail to it; so a twin such as `exаmple.com`
    with a Cyrillic letter looks different (`xn--exmple-4nf.com`). Letters beyond ASCII before the
    @ stay, and are refused where addresses are validated. What is no address stays none.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    local, at, domain = text.rpartition("@")
    if len(text) > LENGTH_LIMIT:
        return text
    try:
        domain = punycode(domain)
    except UnicodeError:
        return text.casefold()
    return f"{local}{at}{domain}".casefold()
