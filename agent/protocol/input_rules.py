"""What an input of a model may be called and hold; server and agent refuse the same."""

#: a longer name is refused
LONGEST_NAME = 200
#: load_and_run splits its `--input` at these; no version has a way to escape them
SEPARATORS = ":;"
#: MegEngine's own limit
MOST_AXES = 7
#: what a compiled load_and_run reads from npy (`f4 i4 i2 u2 i1 u1`); it aborts at all others
BINARY_DTYPES = ("float32", "int32", "int16", "uint16", "int8", "uint8")
#: what MegEngine has a type for, beside those
WHEEL_DTYPES = ("float16", "int64", "uint32", "bool")
ALL_DTYPES = (*BINARY_DTYPES, *WHEEL_DTYPES)
#: load_and_run's names of types in JSON, and numpy's for them
JSON_DTYPES = {
    "float32": "float32",
    "float": "float32",
    "int32": "int32",
    "int": "int32",
    "int8": "int8",
    "uint8": "uint8",
}


def can_be_given(name: str) -> bool:
    """Whether load_and_run can be told an input of this name, of whatever length."""
    return bool(name) and name.isprintable() and not set(name) & set(SEPARATORS)


def instead_of(dtype_kind: str) -> str:
    """The type to save numbers as that MegEngine has no type for; by the letter of numpy's kind."""
    return "float32" if dtype_kind in "fc" else "int32"
