"""Conversion of a result page's query string to a query, and back."""

from urllib.parse import urlencode

import pytest
from django.http import QueryDict

from profiles.tables.request import duration_s, read_request


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.1ms", 1e-4),
        ("100us", 1e-4),
        ("100 µs", 1e-4),
        ("1e-4", 1e-4),
        ("2", 2.0),
        (".5 s", 0.5),
        ("7NS", 7e-9),
        ("", None),
        ("-1ms", None),
        ("1h", None),
        ("nan", None),
        ("1e999", None),
        ("١ms", None),
    ],
)
def test_durations_are_parsed_with_units(text, seconds):
    assert duration_s(text) == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "?type=ConvolutionForward&type=Elemwise",
        "?text=%28100%25%29+%5Bbn&order=memory",
        "?name=conv%7Cbn&dtype=Float32&min=0.1ms&max=1s&end=kern",
        "?agg=sum",
        "?agg=max&over=all&order=memory&up=1",
        "?order=cv&side=both&rows=5",
        "?order=name&up=1&side=host&pass=2&cols=op%2Ctime%2Cflops&page=3",
    ],
)
def test_an_address_round_trips(address):
    assert read_request(QueryDict(address[1:]), passes=5).address() == address


def test_default_values_of_the_form_are_not_in_the_address():
    columns = "".join(
        f"&col={key}" for key in ("op", "time", "cum", "flo", "flops", "mem", "bw", "in", "out")
    )
    sent = QueryDict(f"name=&order=time&up=&agg=&over=all&side=device&rows=&min=&page=1{columns}")
    assert read_request(sent).address() == ""


def test_invalid_values_are_reported_and_ignored():
    request = read_request(QueryDict("name=conv(&min=soon&max=1ms&rows=many"))
    assert set(request.problems) == {"name", "min", "rows"}
    assert (request.query.name, request.query.min_s, request.top) == ("", None, 0)
    assert request.query.max_s == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("order=zzz", "choice"),
        ("agg=zzz", "choice"),
        ("side=zzz", "choice"),
        ("end=zzz", "choice"),
        ("pass=9", "choice"),
        ("over=zzz", "choice"),
        ("up=zzz", "choice"),
        ("page=zzz", "choice"),
        ("cols=zzz", "choice"),
        ("rows=0", "rows"),
    ],
)
def test_an_unknown_choice_is_reported(sent, name):
    request = read_request(QueryDict(sent), passes=5)
    assert set(request.problems) == {name}
    assert request.address() == ""


@pytest.mark.parametrize("text", ["conv(blocks", "a[0", "x(a b)[", "名(\n"])
def test_an_invalid_pattern_offers_a_text_search(text):
    request = read_request(QueryDict(urlencode({"name": text})))
    assert request.problems["name"].count("The pattern is invalid") == 1
    typed, address = request.literal
    second = read_request(QueryDict(address[1:]))
    assert typed == text
    assert second.problems == {}
    assert (second.query.name, second.query.text) == ("", text.strip())


@pytest.mark.parametrize("text", ["%", "a[0", "(?i)x", "\\", "x" * 10_000, "名\x00"])
def test_any_text_can_be_searched(text):
    request = read_request(QueryDict(urlencode({"text": text})))
    assert request.problems == {}
    assert request.query.text == text[:500]
    assert request.is_filtered


@pytest.mark.parametrize("sent", ["order=cv", "order=p90", "agg=sum&order=name", "order=evil"])
def test_an_unavailable_order_falls_back_to_time(sent):
    assert read_request(QueryDict(sent), passes=1).order == "time"


def test_an_unknown_pass_falls_back_to_the_median():
    assert read_request(QueryDict("pass=6"), passes=5).pass_number == 0
    assert read_request(QueryDict("pass=1"), passes=1).pass_number == 0
