"""Types of command line arguments, and help texts with examples."""

import argparse
import math
import textwrap

_WIDTH = 79


def seconds(text: str) -> float:
    """Parse a time limit in seconds. Raises ArgumentTypeError for other text, such as nan."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"“{text}” is not a number of seconds")
    return value


def count(text: str) -> int:
    """Parse a non-negative integer. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"“{text}” is not a non-negative integer")
    return int(text)


def explain(
    parser: argparse.ArgumentParser,
    *examples: str,
    notes: str = "",
    formatter: type[argparse.HelpFormatter] = argparse.RawDescriptionHelpFormatter,
) -> None:
    """Add examples to the end of `--help`.

    notes: text below the examples, printed unchanged
    formatter: a formatter class that does not wrap the description
    """
    parser.formatter_class = formatter
    if parser.description:
        # the formatter does not wrap lines
        parser.description = textwrap.fill(parser.description, _WIDTH)
    title = "example:" if len(examples) == 1 else "examples:"
    text = "\n".join([title, *(f"  {line}" for line in examples)])
    parser.epilog = "\n\n".join(filter(None, [text, notes]))
