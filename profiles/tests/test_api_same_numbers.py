"""A profile has the same figures over the API, on its page and from the command."""

import json
import re
import shlex

import pytest

from profiles.analysis.numbers import percent, short
from profiles.management.commands.profile_analyze import Command, analysis
from profiles.tests.advice_data import expected_rows, recorded_profile
from profiles.tests.imports import make_import
from profiles.tests.make import to_json
from webprofile.tests.documented_api import caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

MODEL, COPIES = "resnet18_planned", "waiting_copies"


def second_pass(name):
    """Return another pass of a recorded profile, in which each operator takes a little longer."""
    profile = json.loads(recorded_profile(name))
    for index, nodes in enumerate(profile["profiler"]["device"].values()):
        for times in nodes.values():
            times["end"] += index * 1e-6
    return to_json(profile)


def command_output(folder, name, arguments):
    """Return what `manage.py profile_analyze` prints for a recorded profile."""
    file = folder / f"{name}.json"
    file.write_bytes(recorded_profile(name))
    parser = Command().create_parser("manage.py", "profile_analyze")
    return analysis(parser.parse_args([str(file), *shlex.split(arguments)]))


QUERIES = {
    MODEL: [
        ("", "-t 0 --show-host"),
        ("rows=5", "-t 5 --show-host"),
        (
            "rows=9&only=device&type=ConvolutionForward&type=Elemwise",
            "-t 9 --print-only device --type ConvolutionForward --type Elemwise",
        ),
        (
            "only=host&name=.*conv&min=1us&max=10ms",
            "-t 0 --print-only host --opr-name '.*conv' --min-time 1e-6 --max-time 1e-2",
        ),
        ("only=device&dtype=Float32&end=kern", "-t 0 --print-only device --input-dtype Float32 "
                                               "--top-end-key kern"),
        ("only=device&agg=sum", "-t 0 --print-only device --aggregate sum --aggregate-by type"),
        ("agg=mean&over=all", "-t 0 --show-host --aggregate mean"),
        ("rows=7&agg=max&order=computation", "-t 7 --show-host --aggregate max --aggregate-by type "
                                             "--order-by computation"),
        ("only=device&order=flops&up=1", "-t 0 --print-only device --order-by +flops"),
        ("only=device&order=in_shapes", "-t 0 --print-only device --order-by in_shapes"),
        ("style=names&only=device", "-t 0 --print-only device --dump-only-opr"),
        ("style=wiki&rows=12", "-t 12 --show-host --confluence"),
        ("only=summary", "--print-only summary"),
    ],
    COPIES: [
        ("copies=1", "-t 0 --show-host --copy-time"),
        ("copies=1&only=summary&style=wiki", "--copy-time --print-only summary --confluence"),
        ("copies=1&only=summary&type=Elemwise", "--copy-time --print-only summary --type Elemwise"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_every_option_of_the_command_prints_the_text_of_the_api(alice, tmp_path, name):
    profile = make_import(alice, recorded_profile(name)).profile
    client = caller(alice)
    for query, arguments in QUERIES[name]:
        response = client.get(f"/api/v1/profiles/{profile.pk}/text/?{query}")
        assert response.status_code == 200
        assert response.getvalue().decode() == command_output(tmp_path, name, arguments), query


def test_the_text_search_applies_to_the_time_of_copies(alice):
    profile = make_import(alice, recorded_profile(COPIES)).profile
    address = f"/api/v1/profiles/{profile.pk}/text/?copies=1&only=summary"
    client = caller(alice)
    assert "no Copy operators" not in client.get(address).getvalue().decode()
    assert "no Copy operators" in client.get(f"{address}&text=nothing").getvalue().decode()


def test_operators_of_the_api_have_the_times_of_the_file(alice):
    profile = make_import(alice, recorded_profile(MODEL)).profile
    address = f"/api/v1/profiles/{profile.pk}/operators/?limit=500"
    operators = caller(alice).get(address).json()["operators"]
    expected = [row for row in expected_rows(MODEL) if row["device_s"] is not None]
    assert len(operators) == len(expected) > 60
    rows = {row["key"]: row for row in expected}
    for operator in operators:
        row = rows[operator["id"]]
        assert (operator["name"], operator["type"]) == (row["name"], row["type"])
        assert operator["self_s"] == pytest.approx(row["device_s"], rel=1e-12)
    total_s = sum(row["device_s"] for row in expected)
    assert [row["self_s"] for row in operators] == sorted(
        (row["self_s"] for row in operators), reverse=True
    )
    assert operators[0]["share"] == pytest.approx(operators[0]["self_s"] / total_s)
    assert operators[-1]["cumulative_share"] == pytest.approx(1)


def test_the_page_and_the_api_have_the_same_operators(alice):
    profile = make_import(alice, recorded_profile(MODEL), second_pass(MODEL)).profile
    client = caller(alice)
    for query in (
        "", "?order=flops", "?name=.*conv&order=name&up=1", "?side=host&min=1us", "?pass=2",
        "?order=cv", "?end=kern&rows=11",
    ):  # fmt: skip
        page = client.get(f"/profiles/{profile.pk}/operators/{query}").text
        on_page = re.findall(
            r'data-row="(\d+)".*?operators__time[^>]*>([^<]*)<br><span[^>]*>([^<]*)<', page
        )
        rows = client.get(f"/api/v1/profiles/{profile.pk}/operators/{query}").json()["operators"]
        from_api = [(str(r["row"]), short(r["self_s"]), percent(r["share"])) for r in rows]
        assert on_page == from_api, query
        assert len(from_api) >= 10


def test_the_page_and_the_api_have_the_same_groups(alice):
    profile = make_import(alice, recorded_profile(MODEL)).profile
    client = caller(alice)
    for query in ("?agg=sum", "?agg=mean&order=memory", "?agg=max&over=all"):
        page = client.get(f"/profiles/{profile.pk}/operators/{query}").text
        on_page = re.findall(
            r'class="operators__name"[^>]*>(?:<bdi>)?([^<]*)</bdi>.*?× (\d+)<.*?'
            r"operators__time[^>]*>([^<]*)<",
            page,
        )
        rows = client.get(f"/api/v1/profiles/{profile.pk}/operators/{query}").json()["groups"]
        from_api = [(r["type"], str(r["operators"]), short(r["time_s"])) for r in rows]
        assert on_page == from_api, query
        assert from_api
