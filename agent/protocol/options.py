"""load_and_run's options that a user may set: the one table behind form, validation and argv.

Names, defaults and limits are those of load_and_run 1.13 (`load_and_run --help`). What decides
where files lie (`input`, `profile`) is set by the agent, never by a user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = bool | int | float | str


@dataclass(frozen=True)
class Option:
    """One option. `kind` is its type on load_and_run's command line; limits are inclusive."""

    name: str
    kind: Literal["bool", "int"]
    default: bool | int
    minimum: int | None = None
    maximum: int | None = None
    excludes: tuple[str, ...] = ()


class OptionError(ValueError):
    """A value that load_and_run would refuse, ignore or hang on.

    `code` is one of unknown, not_bool, not_int, too_small, too_large, excluded; `limit` is the
    limit that was passed or the name of the option that is in the way.
    """

    def __init__(self, option: str, code: str, limit: int | str | None = None) -> None:
        self.option, self.code, self.limit = option, code, limit
        super().__init__(f"option {option}: {code}" + ("" if limit is None else f" ({limit})"))


#: in the order of load_and_run's own help; a negative iter or warmup_iter would never end there
OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in (
        Option("iter", "int", 10, minimum=1, maximum=10_000),
        Option("warmup_iter", "int", 1, minimum=0, maximum=1_000),
        Option("cpu", "bool", False, excludes=("cpu_default",)),
        Option("cpu_default", "bool", False, excludes=("cpu",)),
        Option("profile_host", "bool", False),
        Option("verbose", "bool", False),
    )
}


def check_options(given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options that differ from their defaults. Raises OptionError on a bad one."""
    chosen: dict[str, Value] = {}
    for name, value in given.items():
        option = OPTIONS.get(name)
        if option is None:
            raise OptionError(name, "unknown")
        _check_value(option, value)
        if value != option.default:
            chosen[name] = value
    for name in chosen:
        for other in OPTIONS[name].excludes:
            if other in chosen:
                raise OptionError(name, "excluded", other)
    return chosen


def _check_value(option: Option, value: Value) -> None:
    if option.kind == "bool":
        if not isinstance(value, bool):
            raise OptionError(option.name, "not_bool")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(option.name, "not_int")
    if option.minimum is not None and value < option.minimum:
        raise OptionError(option.name, "too_small", option.minimum)
    if option.maximum is not None and value > option.maximum:
        raise OptionError(option.name, "too_large", option.maximum)


def build_arguments(
    model: str, inputs: Mapping[str, str], options: Mapping[str, Value], profile: str
) -> list[str]:
    """load_and_run's arguments after the command itself.

    `inputs` maps variable to file name; `profile` is where the profile is to be written. Every
    value is glued to its flag with `=`: gflags then never takes one for a further argument.
    """
    chosen = dict(check_options(options))
    host = bool(chosen.pop("profile_host", False))
    arguments = [model]
    if inputs:
        arguments.append("--input=" + ";".join(f"{name}:{file}" for name, file in inputs.items()))
    for name, value in chosen.items():
        arguments.append(f"--{name}" if value is True else f"--{name}={value}")
    arguments.append(f"--{'profile_host' if host else 'profile'}={profile}")
    return arguments
