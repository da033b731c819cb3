"""Texts that the form shows for a chosen file that cannot be used, before it is uploaded.

`static/js/file_heads.js` applies the rules of `tasks.asking.inspection` and `programs` in the
browser. The texts of their refusals are the server's own; what only the form refuses stands here.
"""

import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

_FORM_ONLY: dict[str, Any] = {
    "model_other": _(
        "“%(name)s” is not a MegEngine model: it looks like %(what)s. Dump the model with "
        "trace.dump and choose that file (.mge)."
    ),
    "model_text": _(
        "“%(name)s” is a text, not a MegEngine model. Dump the model with trace.dump and choose "
        "that file (.mge); to run a program, choose “Script” above."
    ),
    "model_unknown": _(
        "“%(name)s” does not begin as a MegEngine model does. Dump the model with trace.dump and "
        "choose that file (.mge)."
    ),
    "model_cut_short": _(
        "“%(name)s” is cut short: it has %(size)s of %(wanted)s bytes. Copy or dump it again."
    ),
    "model_test_case": _(
        "“%(name)s” contains input data (mgbtest0), which only a compiled load_and_run reads. Dump "
        "the model without data, or choose such a version."
    ),
    "unreadable": _(
        "This file could not be read. It may have changed or moved since you chose it: choose it "
        "again."
    ),
    "model": _("A MegEngine model, %(size)s"),
    "fortran": _(
        "%(arrays)s in Fortran order. The device reorders it to C order before the run; the values "
        "stay the same."
    ),
}
#: what a file looks like that is no model
_LOOKS_LIKE: dict[str, Any] = {
    "picture": _("a picture"),
    "zip": _("a zip archive (PyTorch and .npz files are such)"),
    "gzip": _("a gzip archive"),
    "pickle": _("a Python pickle (as megengine.save writes)"),
    "npy": _("an .npy array"),
    "hdf5": _("an HDF5 file"),
    "program": _("a program"),
    "json": _("a JSON text"),
}
_OF_THE_SERVER = ("input_", "script_is_", "script_not_", "script_zip_")


def file_words(wordings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """{"texts": {code: text}, "looks": {kind: text}} in the reader's language.

    `wordings`: the server's texts by error code. A text has its values in braces, as `fill`
    of static/js/format.js takes it.
    """
    server = {code: text for code, text in wordings.items() if code.startswith(_OF_THE_SERVER)}
    texts = {code: _in_braces(str(text)) for code, text in {**server, **_FORM_ONLY}.items()}
    return {"texts": texts, "looks": {kind: str(text) for kind, text in _LOOKS_LIKE.items()}}


def _in_braces(text: str) -> str:
    return re.sub(r"%\((\w+)\)s", r"{\1}", text).replace("%%", "%")
