"""Types of numbers in messages and files, each with a finite range.

Without bounds, sums, products and timedeltas of finite numbers may be infinite or overflow. The
limits are far above the values of any device and fit into 64 bits, JSON and database columns.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field
from typing_extensions import TypeAliasType

LARGEST_INTEGER = 2**63 - 1
LARGEST_NUMBER = 1e18

Integer = Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
#: bytes, or a count
Size = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False)]
#: seconds since the epoch
Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
#: a duration in seconds, at most 31 years
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
if TYPE_CHECKING:  # mypy does not resolve the name of a recursive type in its own definition
    Json = Any
else:
    #: any JSON whose numbers are bounded
    Json = TypeAliasType(
        "Json", dict[str, "Json"] | list["Json"] | bool | Integer | Number | str | None
    )

LONGEST_MS = 1e12


def _limit(value: Any, limit: float) -> Any:
    """Limit a number, and each number of a list or object, to -limit ... limit; NaN to the limit.

    A measurement with an absurd number thus stays readable, and readers skip the number.
    """
    if isinstance(value, dict):
        return {key: _limit(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_limit(item, limit) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= limit:
        return -limit if value < 0 else limit
    return value


#: a measured time in milliseconds, limited; negative if a clock was set back
LimitedMilliseconds = Annotated[
    float,
    Field(ge=-LONGEST_MS, le=LONGEST_MS, allow_inf_nan=False),
    BeforeValidator(partial(_limit, limit=LONGEST_MS)),
]
LimitedNumber = Annotated[Number, BeforeValidator(partial(_limit, limit=LARGEST_NUMBER))]
LimitedInteger = Annotated[Integer, BeforeValidator(partial(_limit, limit=LARGEST_INTEGER))]
LimitedCount = Annotated[
    int,
    Field(ge=1, le=LARGEST_INTEGER),
    BeforeValidator(partial(_limit, limit=LARGEST_INTEGER)),
]
#: JSON of a device, its numbers limited
LimitedJson = Annotated[dict[str, Json], BeforeValidator(partial(_limit, limit=LARGEST_NUMBER))]
