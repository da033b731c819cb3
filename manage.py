#!/usr/bin/env python
"""Django's command line."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.dev")
    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        from webprofile.messages.errors import word
        from webprofile.outages import outage_of

        outage = outage_of(error)
        if outage is None or "--traceback" in sys.argv:
            raise
        sys.exit(f"{word(outage)}\n{error}")


if __name__ == "__main__":
    main()
