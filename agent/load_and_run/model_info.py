"""The table of --model_info, as load_and_run prints it."""

from load_and_run.inputs import braces

_TITLE = "Runtime Model Info"
_HEAD = ("type", "name", "shape", "dtype")


def table(inputs, outputs):
    """The table's text; `inputs` and `outputs` have name, dtype and shape each (Wanted)."""
    rows = [_HEAD]
    for kind, tensors in (("INPUT", inputs), ("OUTPUT", outputs)):
        rows += [(kind, each.name, braces(each.shape), str(each.dtype)) for each in tensors]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEAD))]
    border = "+" + "+".join("-" * width for width in widths) + "+"
    lines = ["+" + _TITLE + border[len(_TITLE) + 1 :]]
    for row in rows:
        cells = [_middle(row[column], widths[column]) for column in range(len(row))]
        lines += ["|" + "|".join(cells) + "|", border]
    return "\n".join(lines)


def _middle(text, width):
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)
