"""Names and dtypes allowed for the inputs of a model; server and agent apply the same rules.

They are separate from `agent.protocol.inputs` so that the server imports them without numpy.
"""

#: longest name of an input, in characters
LONGEST_NAME = 200
#: load_and_run splits the value of `--input` at these; a compiled one cannot escape them
SEPARATORS = ":;"
#: MegEngine's limit
MOST_AXES = 7
#: dtypes that a compiled load_and_run reads from npy (`f4 i4 i2 u2 i1 u1`); it aborts on others
BINARY_DTYPES = ("float32", "int32", "int16", "uint16", "int8", "uint8")
#: further dtypes that MegEngine supports
WHEEL_DTYPES = ("float16", "int64", "uint32", "bool")
ALL_DTYPES = (*BINARY_DTYPES, *WHEEL_DTYPES)
#: dtype names in load_and_run's JSON -> numpy's names
JSON_DTYPES = {
    "float32": "float32",
    "float": "float32",
    "int32": "int32",
    "int": "int32",
    "int8": "int8",
    "uint8": "uint8",
}


def can_be_given(name: str, kind: str) -> bool:
    """Return whether a kind of runtime accepts an input of this name; ignores its length."""
    is_split = kind == "binary" and not set(name).isdisjoint(SEPARATORS)
    return bool(name) and name.isprintable() and not is_split


def escaped(name: str) -> str:
    """Escape a name for `--input` of the front end for the wheel (agent/load_and_run/inputs.py)."""
    return "".join(f"\\{letter}" if letter in f"\\{SEPARATORS}" else letter for letter in name)


def instead_of(dtype_kind: str) -> str:
    """Suggest a dtype instead of one that MegEngine lacks, by the letter of numpy's kind."""
    return "float32" if dtype_kind in "fc" else "int32"
