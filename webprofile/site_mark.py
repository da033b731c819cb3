"""Challenge and response by which a process with the SECRET_KEY recognises its own site."""

from django.utils.crypto import constant_time_compare, salted_hmac

HEADER = "X-Site-Mark"
QUESTION_LENGTH = 64


def site_mark(question: str) -> str:
    """Return the response to a challenge: an HMAC-SHA256 of 64 hexadecimal digits."""
    return salted_hmac("webprofile.site_mark", question, algorithm="sha256").hexdigest()


def is_mark(question: str, answer: str) -> bool:
    return constant_time_compare(site_mark(question), answer)
