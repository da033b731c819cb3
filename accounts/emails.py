"""E-mail addresses: one way to write each, because they are what users log in with."""

import unicodedata

from django.utils.encoding import punycode

#: of what forms take; converting a domain takes time that grows with its square
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
