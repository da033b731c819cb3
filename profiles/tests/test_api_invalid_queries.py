"""Invalid requests to the API of profiles, and the number of queries of its lists."""

import pytest

from profiles.tests.imports import make_import
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import make_result
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

ROOT = "/api/v1/profiles/"
HUGE = 2**63


@pytest.fixture
def upload(alice):
    passes = [{"1": 0.01, "2": 0.02}, {"1": 0.012, "2": 0.02}]
    return make_import(alice, *(to_json(make_profile(times)) for times in passes))


def test_an_unknown_profile_returns_404(alice):
    client = caller(alice)
    for number in (0, 987654321, HUGE, HUGE**3):
        for path in ("", "operators/", "text/", "export/csv/", "raw/1/", "graph/", "statistics/"):
            expect_problem(client.get(f"{ROOT}{number}/{path}"), 404, "not_found")


#: path below a profile, status and code of the response
INVALID = (
    (f"raw/{HUGE}/", 404, "not_found"),
    (f"operators/?around={HUGE}", 400, "query_invalid"),
    (f"operators/?offset={HUGE}", 400, "query_invalid"),
    ("operators/?offset=2147483647", 200, ""),
    ("operators/?around=2147483647", 200, ""),
    ("operators/?name=" + "(" * 200 + ")" * 200, 200, ""),
    ("operators/?name=(a%2B)%2B%24", 200, ""),
    ("operators/?name=(%3F%3C%3Da)b", 422, "export_question"),
    ("operators/?name=a%7B1000%7D%7B1000%7D", 422, "export_question"),
    ("operators/?name=" + "x" * 501, 400, "query_invalid"),
    ("operators/?name=%00", 400, "query_invalid"),
    ("operators/?" + "&".join(["type=a"] * 201), 400, "query_invalid"),
    ("operators/?min=1e999", 400, "query_invalid"),
    ("operators/?min=1e99", 200, ""),
    ("operators/?min=nan", 400, "query_invalid"),
    ("operators/?min=2s&max=1s", 200, ""),
    ("operators/?min=soon", 400, "query_invalid"),
    ("operators/?agg=median", 400, "query_invalid"),
    ("operators/?nothing=1", 400, "query_unknown"),
    ("operators/?order=colour", 400, "query_invalid"),
    ("operators/?limit=0", 400, "query_invalid"),
    ("operators/?limit=501", 400, "query_invalid"),
    ("operators/?offset=-1", 400, "query_invalid"),
    ("operators/?side=both", 400, "query_invalid"),
    ("operators/?name=(", 422, "export_question"),
    ("operators/?pass=3", 422, "export_question"),
    ("operators/?rows=0", 400, "query_invalid"),
    ("text/?name=(", 422, "export_question"),
    ("text/?order=cv", 400, "query_invalid"),
    ("text/?side=host", 400, "query_unknown"),
    ("text/?only=both", 400, "query_invalid"),
    ("text/?style=latex", 400, "query_invalid"),
    ("text/?copies=yes", 400, "query_invalid"),
    ("text/?rows=0", 400, "query_invalid"),
    ("export/pdf/", 404, "export_unknown"),
    ("export/csv/?name=(", 422, "export_question"),
    ("export/csv/?limit=1", 400, "query_unknown"),
    ("graph/?limit=2001", 400, "query_invalid"),
    ("charts/timeline/?pass=3", 422, "pass_unknown"),
    ("charts/timeline/?from=1", 422, "window_bad"),
    ("charts/timeline/?from=5&to=1", 422, "window_bad"),
    ("charts/timeline/?from=nan&to=inf", 400, "query_invalid"),
    ("charts/memory/?device=nowhere", 200, ""),
    ("charts/types/?x=1", 200, ""),
    ("charts/pie/", 404, "not_found"),
)


def test_invalid_queries_of_a_profile_are_refused(alice, upload):
    client = caller(alice)
    for path, status, code in INVALID:
        response = client.get(f"{ROOT}{upload.profile.pk}/{path}")
        assert response.status_code == status, (path, response.content)
        assert not code or response.json()["code"] == code, path


#: query of a comparison, in which `{id}` is a profile; status and code of the response
INVALID_COMPARISONS = (
    ("", 400, "query_invalid"),
    ("p=1", 400, "query_invalid"),
    ("p=x&p=1", 400, "query_invalid"),
    ("p=1&p=999999999", 404, "not_found"),
    ("p=1&p=1000000000", 400, "query_invalid"),
    ("&".join(f"p={n}" for n in range(1, 10)), 400, "query_invalid"),
    ("p={id}&p={id}", 422, "comparison_choice"),
    ("p={id}&p={id}&with=9", 400, "query_invalid"),
    ("p={id}&p={id}&status=odd", 400, "query_invalid"),
    ("p={id}&p={id}&min=-1", 400, "query_invalid"),
    ("p={id}&p={id}&q=%00", 400, "query_invalid"),
)


def test_invalid_queries_of_a_comparison_are_refused(alice, upload):
    client = caller(alice)
    for query, status, code in INVALID_COMPARISONS:
        url = f"{ROOT}compare/?{query}".replace("{id}", str(upload.profile.pk))
        response = client.get(url)
        assert (response.status_code, response.json()["code"]) == (status, code), query


def test_eight_profiles_can_be_compared(alice):
    profiles = [
        make_import(alice, to_json(make_profile({"1": 0.01 + n / 1000}))).profile for n in range(8)
    ]
    pairs = "&".join(f"p={profile.pk}" for profile in profiles)
    body = caller(alice).get(f"{ROOT}compare/?{pairs}&rows=all&with=7").json()
    assert [profile["letter"] for profile in body["profiles"]] == list("ABCDEFGH")
    (row,) = body["rows"]
    assert [other["difference_s"] for other in row["others"]] == pytest.approx(
        [n / 1000 for n in range(1, 8)]
    )


def test_the_number_of_queries_of_a_list_does_not_grow_with_its_rows(
    alice, django_assert_max_num_queries
):
    contents = (to_json(make_profile({"1": 0.01 + n / 1000})) for n in range(10))
    client = caller(alice)

    def add(number):
        for _ in range(number):
            make_import(alice, next(contents), name="mine")
            make_result(next(contents), owner=alice)

    def count(path):
        with django_assert_max_num_queries(5) as queries:
            client.get(f"{ROOT}{path}")
        return len(queries)

    paths = ("", "opened/", "?title=mi")
    add(1)
    for path in paths:
        client.get(f"{ROOT}{path}")
    few = [count(path) for path in paths]
    add(4)
    assert [count(path) for path in paths] == few
