"""Why an input is refused."""

from typing import Any, Literal

Code = Literal[
    "unreadable",  # no such file, or not a regular one
    "format",  # neither npy, JSON nor a picture, or not what its name says
    "header",  # an npy or picture header that nobody can believe
    "size",  # the file is shorter or longer than its header says
    "axes",  # none, more than seven, or one of length zero
    "dtype",  # a type that MegEngine or this kind of runtime cannot take
    "json",
    "literal",
    "name",  # a name that cannot be given to load_and_run, or one given twice
    "unknown_input",  # the model has no such input
    "wrong_dtype",  # the model wants another type
    "shape",  # random data of a shape or type that is not known
    "too_large",
]


class InputError(ValueError):
    """An input that must not reach load_and_run.

    `text` names the input or its file, what is wrong with it and what to do; it is for the user, so
    it holds no path. `rule` and `data` say the same for the site, which has texts of its own by
    rule; empty where only a device can find it out.
    """

    def __init__(self, code: Code, text: str, rule: str = "", **data: Any) -> None:
        self.code: Code = code
        self.text = text
        self.rule = rule
        self.data = data
        super().__init__(text)
