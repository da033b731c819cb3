"""Logging of the server: one line a fact, the event a constant, the rest fields (structlog)."""

import logging

import structlog


def configure_logging(level: str) -> None:
    """Send structlog and the standard library to stderr, one line an event."""
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
                structlog.processors.LogfmtRenderer(
                    key_order=["timestamp", "level", "event"], bool_as_flag=False
                ),
            ],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for noisy in ("botocore", "boto3", "urllib3", "asyncio", "websockets", "httpx2"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
