"""Arguments of commands: numbers that make sense, and help that shows by example."""

import argparse
import math
import textwrap

_WIDTH = 79


def seconds(text: str) -> float:
    """Of a time limit. Raises ArgumentTypeError for what is none, such as nan."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"“{text}” is no number of seconds")
    return value


def count(text: str) -> int:
    """A whole number from 0 on. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"“{text}” is no whole number from 0 on")
    return int(text)


def explain(
    parser: argparse.ArgumentParser,
    *examples: str,
    notes: str = "",
    formatter: type[argparse.HelpFormatter] = argparse.RawDescriptionHelpFormatter,
) -> None:
    """Have `--help` end with examples; notes: what stands below them, as it is.

    formatter: one that leaves the description's lines as they are
    """
    parser.formatter_class = formatter
    if parser.description:
        # help texts are in one piece: here the lines are ours to break
        parser.description = textwrap.fill(parser.description, _WIDTH)
    title = "example:" if len(examples) == 1 else "examples:"
    text = "\n".join([title, *(f"  {line}" for line in examples)])
    parser.epilog = "\n\n".join(filter(None, [text, notes]))
