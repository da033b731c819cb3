"""Logging of the server (structlog): one line per event, with a constant name and fields."""

import logging
import re
from collections.abc import Callable
from typing import Any

import structlog

#: minimum levels of libraries that repeat the access line or log secrets
_LEAST_LEVELS = {
    "django.request": logging.ERROR,
    "uvicorn.access": logging.CRITICAL,
    # logs ten lines for each refused connection, in addition to the exception that dramatiq logs
    "pika": logging.CRITICAL,
    # at DEBUG it logs the whole context of a page with a missing variable, which may contain the
    # seed of a second factor or a new token
    "django.template": logging.INFO,
}
_NOISY = ("botocore", "boto3", "urllib3", "asyncio", "websockets", "httpx2")
#: the token of a share link (`profiles.sharing`)
_TOKEN = re.compile(r"mws_[A-Za-z0-9_-]+")
_ORDER = ["timestamp", "level", "event"]


def configure_logging(level: str, form: str = "logfmt") -> None:
    """Send structlog and standard library logs to stderr, one line per event.

    form: `logfmt`, or `json` for one object per line. Raises ValueError for any other value, and
    for an unknown level.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _renderer(form),
            ],
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    try:
        root.setLevel(level.upper())
    except ValueError:
        message = f"LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, not {level!r}."
        raise ValueError(message) from None
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    for name, least in _LEAST_LEVELS.items():
        logging.getLogger(name).setLevel(least)
    logging.getLogger("django.request").filters = [_is_bug]
    # uvicorn's own handlers would use another format
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
    # an error of the client, which the response describes
    logging.getLogger("django.security.RequestDataTooBig").setLevel(logging.CRITICAL)


def _is_bug(record: logging.LogRecord) -> bool:
    """Drop log records of status 503: a part is unavailable or the process shuts down."""
    return getattr(record, "status_code", 500) != 503


def _renderer(form: str) -> Callable[..., str]:
    if form not in ("json", "logfmt"):
        raise ValueError(f"LOG_FORMAT must be logfmt or json, not {form!r}.")
    render: Callable[..., Any] = (
        structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
        if form == "json"
        else structlog.processors.LogfmtRenderer(key_order=_ORDER, bool_as_flag=False)
    )
    # libraries log paths, which contain the token of a share link
    return lambda *event: _TOKEN.sub("mws_*", render(*event))
