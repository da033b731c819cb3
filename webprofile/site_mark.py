"""How a site shows that it is itself: whoever has its SECRET_KEY can tell, nobody else."""

from django.utils.crypto import constant_time_compare, salted_hmac

HEADER = "X-Site-Mark"
QUESTION_LENGTH = 64


def site_mark(question: str) -> str:
    """The answer of this site, 64 hexadecimal digits; of no use for anything else."""
    return salted_hmac("webprofile.site_mark", question, algorithm="sha256").hexdigest()


def is_mark(question: str, answer: str) -> bool:
    return constant_time_compare(site_mark(question), answer)
