"""Statistics of several passes on the page, and the explanation of each figure."""

import re
from html.parser import HTMLParser

import pytest
from django.template.loader import render_to_string
from django.utils import translation

from agent.protocol.measurement import Measurement, PassRecord
from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.passes import merge
from profiles.formats.load_and_run.graph_json import parse_graph
from profiles.formats.load_and_run.reader import parse
from profiles.ingest.build import profile_row
from profiles.ingest.measurements import measurement_row
from profiles.models import AttemptMeasurement
from profiles.presenters.explanations import EXPLANATIONS
from profiles.presenters.statistics import statistics_view
from profiles.tables.columns import columns_available
from profiles.tests.make import STANDARD, make_profile, measurement_json, profiled_pass, to_json
from tasks.models import Attempt

CLEAN_MS = (*(10.0 + number / 100 for number in range(100)), 500.0)


def data_of(*passes: dict[str, float], left_out: tuple[LeftOut, ...] = ()) -> ProfileData:
    files = [to_json(make_profile(dict(times))) for times in passes]
    columns = [(f"profile-{n}.json", parse(file)) for n, file in enumerate(files, start=1)]
    return merge(columns, parse_graph(files[0], columns[0][1]), left_out)


def row_of(*passes: PassRecord) -> AttemptMeasurement:
    record = Measurement.model_validate_json(measurement_json(*passes, plan=STANDARD))
    return measurement_row(Attempt(), record, [])


def clean(*times_ms: float) -> PassRecord:
    return PassRecord(number=1, kind="clean", e2e_ms=times_ms, exit_code=0)


def page(data, row=None, log_ms=None, part="_statistics") -> str:
    profile = profile_row(data) if data else None
    if profile is not None:
        profile.mean_ms = log_ms
    view = statistics_view(data, profile, row)
    return render_to_string(f"profiles/{part}.html", {"statistics": view})


def text_of(html: str, element: str) -> str:
    match = re.search(rf'id="{element}"[^>]*>([^<]*)', html)
    assert match, element
    return match[1].strip()


FIVE = [{"0": 0.006 + n * 1e-5, "1": 0.003 * (1 + n / 10)} for n in range(5)]


def test_figures_of_five_passes_and_a_clean_one():
    row = row_of(
        clean(*CLEAN_MS),
        profiled_pass(2, 11.0, 12.0, profile="profile-1.json"),
        profiled_pass(3, 11.5, profile="profile-2.json"),
    )
    html = page(data_of(*FIVE), row)
    assert text_of(html, "merged-passes") == "5"
    assert text_of(html, "device-median-total") == "9.620 ms"
    assert "passes 9.000 ms to 10.24 ms" in html
    assert text_of(html, "device-unstable").startswith("1 of 2 operators is unstable (37.4 %")
    # two passes have a known last iteration: 9 of 12 ms and 9.31 of 11.5 ms
    assert text_of(html, "coverage") == "78.0 %"
    assert "passes 75.0 % to 81.0 %" in html
    assert text_of(html, "profiling-cost") == "9.5 %"
    assert "median 11.50 ms with profiling, 10.50 ms without" in html
    assert "Above 100 per cent: " not in html


def test_operators_that_take_longer_than_their_iteration_are_explained():
    row = row_of(profiled_pass(1, 10.0, profile="profile-1.json"))
    html = page(data_of({"0": 0.02}), row)
    assert text_of(html, "coverage") == "200.0 %"
    assert "Above 100 per cent: operators overlap" in html
    assert text_of(html, "outside") == "–"
    assert "operators overlap, so their times cannot be subtracted" in html


def test_operators_are_compared_with_no_iteration_of_another_process():
    html = page(
        data_of({"0": 0.006}), row_of(clean(10.0, 10.0), profiled_pass(2, 12.0)), log_ms=8.0
    )
    assert 'id="coverage"' not in html
    assert 'id="outside"' not in html


@pytest.mark.parametrize(
    ("profiled_ms", "cost"), [(11.5, "9.5 %"), (8.7, "within noise"), (10.5, "0.0 %")]
)
def test_profiling_never_costs_less_than_nothing(profiled_ms, cost):
    row = row_of(clean(*CLEAN_MS), profiled_pass(2, profiled_ms))
    html = page(data_of(*FIVE), row)
    assert text_of(html, "profiling-cost") == cost
    assert "-17" not in html


def test_one_pass_says_that_its_spread_is_unknown_and_what_to_do():
    html = page(data_of({"0": 0.006}))
    assert "One sample of each operator" in html
    assert "unstable" not in html.split("device-median-total")[1].split("explained")[0]
    assert 'id="coverage"' not in html
    assert html.count(">one sample</span>") == 1  # beside the device's total; the host has no times
    assert ">one sample</span>" not in page(data_of(*FIVE))


def test_the_histogram_is_drawn_with_its_marks_and_stands_in_a_table_too():
    html = page(None, row_of(clean(*CLEAN_MS)))
    bars = re.findall(r'class="histogram__bar" x="([\d.]+)"[^>]*width="([\d.]+)"', html)
    assert len(bars) >= 5
    assert float(bars[-1][0]) + float(bars[-1][1]) == pytest.approx(1000, abs=0.5)
    for name in ("median", "p90", "p99"):
        assert len(re.findall(rf'histogram__line--{name}" x1="[\d.]+"', html)) == 2
    assert html.count("<tr>") == len(bars) + 1
    assert "1 slower iteration of 500.0 ms is beyond the right edge." in html
    counts = [int(n) for n in re.findall(r'<td class="table__number">(\d+)</td></tr>', html)]
    assert sum(counts) == 100
    assert "Histogram of 101 iterations from 10.00 ms to 10.99 ms, median 10.50 ms." in html


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((10.0,), "1 iteration without profiling, 10.00 ms: too few"),
        ((10.0, 10.0), "All 2 iterations without profiling took 10.00 ms"),
    ],
)
def test_iterations_that_do_not_differ_are_told_in_words(times, words):
    html = page(None, row_of(clean(*times)))
    assert words in html
    assert "<svg" not in html


def test_numbers_in_the_drawing_do_not_follow_the_readers_language():
    row = row_of(clean(*CLEAN_MS))
    with translation.override("zh-hans"):
        html = page(data_of(*FIVE), row)
    assert "每个算子有 5 个样本" in html
    drawing = html.split('class="histogram__plot"')[1].split("</svg>")[0]
    assert re.search(r'x="\d+\.\d+"', drawing)
    assert not re.search(r'x="\d+,\d+"', drawing)


def test_what_was_not_merged_is_named_with_the_reason_and_never_as_markup():
    left_out = (
        LeftOut("profile.json", "not_json", "The <b>file</b> is not JSON."),
        LeftOut("profile-7.json", "too_heavy", "Reading it takes more than 9 MiB of memory."),
    )
    html = page(data_of({"0": 0.01}, {"0": 0.01}, left_out=left_out), part="_left_out")
    assert "2 files could not be used" in html
    assert "It cannot be read." in html
    assert "more memory or time than this site allows" in html
    assert "&lt;b&gt;file&lt;/b&gt;" in html
    assert "those of \u2068profile-1.json\u2069, the first that can be read" in html


class _Explanations(HTMLParser):
    """Collects the buttons of explanations and the texts that they open."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.texts: dict[str, str] = {}
        self.ids: list[str] = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if "popovertarget" in values:
            assert values["aria-label"]
            self.targets.append(values["popovertarget"])
        if "popover" in values:
            self.texts[values["id"]] = tag


def test_each_figure_has_an_explanation_that_opens_without_a_script():
    row = row_of(clean(*CLEAN_MS), profiled_pass(2, 11.0, 12.0, profile="profile-1.json"))
    explanations = _Explanations()
    explanations.feed(page(data_of(*FIVE), row))
    assert len(explanations.targets) >= 11
    assert set(explanations.targets) == set(explanations.texts)
    assert len(explanations.ids) == len(set(explanations.ids))
    for key in (
        "passes",
        "device_total",
        "coverage",
        "outside",
        "overhead",
        "unstable",
        "latency_p99",
    ):
        assert any(target.endswith(f"-{key}") for target in explanations.targets), key


@pytest.mark.parametrize("key", EXPLANATIONS)
def test_an_explanation_tells_what_it_is_its_unit_and_its_formula_in_both_languages(key):
    about = EXPLANATIONS[key]
    english = [str(text) for text in (about.what, about.unit)]
    assert all(english)
    with translation.override("zh-hans"):
        for word in english:
            assert re.search("[\u4e00-\u9fff]", translation.gettext(word))


@pytest.mark.parametrize(
    ("note", "unit"),
    [
        ("s", "seconds"),
        ("median, s", "seconds"),
        ("%", "per cent"),
        ("FLOP", "FLOP, 1000 FLOP = 1 KFLOP"),
        ("byte", "byte, 1024 byte = 1 KiB"),
        ("byte/s", "bytes per second"),
    ],
)
def test_the_help_of_a_column_says_the_unit_of_its_heading(note, unit):
    columns = [
        column
        for statistics in (True, False)
        for column in columns_available(statistics=statistics, aggregated=False)
        if column.note == note
    ]
    assert columns
    assert {str(column.about.unit) for column in columns} == {unit}
