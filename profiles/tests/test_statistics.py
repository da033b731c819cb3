"""Statistics of several passes on the page, and the explanation of each figure."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from django.template.loader import render_to_string
from django.utils import translation

from agent.protocol.measurement import Measurement, PassRecord
from profiles.analysis.data import LeftOut, ProfileData
from profiles.ingest.build import profile_row
from profiles.ingest.results import measurement_row
from profiles.models import AttemptMeasurement
from profiles.presenters.explanations import EXPLANATIONS
from profiles.presenters.statistics import latency_words, statistics_view
from profiles.tables.columns import columns_available
from profiles.tests.make import STANDARD, make_profile, measurement_json, profiled_pass, to_json
from profiles.tests.passes import data_of
from tasks.models import Attempt

CLEAN_MS = (*(10.0 + number / 100 for number in range(100)), 500.0)


def make_data(*passes: dict[str, float], left_out: tuple[LeftOut, ...] = ()) -> ProfileData:
    return data_of(*(to_json(make_profile(times)) for times in passes), left_out=left_out)


def make_row(*passes: PassRecord) -> AttemptMeasurement:
    record = Measurement.model_validate_json(measurement_json(*passes, plan=STANDARD))
    return measurement_row(Attempt(), record, [])


def clean_pass(*times_ms: float) -> PassRecord:
    return PassRecord(number=1, kind="clean", e2e_ms=times_ms, exit_code=0)


def render_page(data, row=None, log_ms=None, part="_statistics") -> str:
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
    row = make_row(
        clean_pass(*CLEAN_MS),
        profiled_pass(2, 11.0, 12.0, profile="profile-1.json"),
        profiled_pass(3, 11.5, profile="profile-2.json"),
    )
    html = render_page(make_data(*FIVE), row)
    assert text_of(html, "merged-passes") == "5"
    assert text_of(html, "device-median-total") == "9.62 ms"
    assert "passes 9.00 ms to 10.2 ms" in html
    assert text_of(html, "device-unstable").startswith("1 of 2 operators is unstable (37.4 %")
    # two passes have a known last iteration: 9 of 12 ms and 9.31 of 11.5 ms
    assert text_of(html, "coverage") == "78.0 %"
    assert "passes 75.0 % to 81.0 %" in html
    assert text_of(html, "profiling-cost") == "9.5 %"
    assert "median 11.5 ms with the profiler on, 10.5 ms off" in html
    assert "Above 100 percent: " not in html


def test_coverage_above_100_per_cent_is_explained():
    row = make_row(profiled_pass(1, 10.0, profile="profile-1.json"))
    html = render_page(make_data({"0": 0.02}), row)
    assert text_of(html, "coverage") == "200.0 %"
    assert "Above 100 percent: operators overlap" in html
    assert text_of(html, "outside") == "–"
    assert "operators overlap, so their times cannot be subtracted" in html


def test_coverage_requires_iterations_of_the_same_process():
    row = make_row(clean_pass(10.0, 10.0), profiled_pass(2, 12.0))
    html = render_page(make_data({"0": 0.006}), row, log_ms=8.0)
    assert 'id="coverage"' not in html
    assert 'id="outside"' not in html


@pytest.mark.parametrize(
    ("profiled_ms", "cost"), [(11.5, "9.5 %"), (8.7, "within noise"), (10.5, "0.0 %")]
)
def test_profiling_overhead_is_never_negative(profiled_ms, cost):
    row = make_row(clean_pass(*CLEAN_MS), profiled_pass(2, profiled_ms))
    html = render_page(make_data(*FIVE), row)
    assert text_of(html, "profiling-cost") == cost
    assert "-17" not in html


def test_a_single_pass_has_no_spread_and_a_badge():
    html = render_page(make_data({"0": 0.006}))
    assert "One sample per operator" in html
    assert "unstable" not in html.split("device-median-total")[1].split("explained")[0]
    assert 'id="coverage"' not in html
    assert html.count(">one sample</span>") == 1  # beside the device's total; the host has no times
    assert ">one sample</span>" not in render_page(make_data(*FIVE))


def noisy(level_ms: float, n: int, seed: int) -> np.ndarray:
    return level_ms * np.exp(np.random.default_rng(seed).normal(0, 0.005, n))


def test_two_processes_on_a_busy_device_have_no_absurd_interval():
    row = make_row(clean_pass(*noisy(0.009, 20, 1)), clean_pass(*noisy(13.9, 20, 2)))
    assert latency_words(row)["interval"].startswith("unknown: the latency passes are too few")
    assert "95 % interval" not in render_page(None, row)


def test_the_latency_says_when_it_is_steady_and_its_modes():
    row = make_row(clean_pass(*noisy(15, 14, 1), *noisy(10, 86, 2)))
    assert latency_words(row) == {
        "steady": "steady after 14 iterations, with a median of 10.0 ms from then on",
        "brief": "steady after 14 iterations",
        "modes": "",
        "interval": "unknown: the latency passes are too few to tell how much the times of "
        "processes differ",
        "waits": "",
    }
    assert "steady after 14 iterations, with a median" in render_page(None, row)
    with translation.override("zh-hans"):
        assert latency_words(row)["steady"] == "14 次迭代后达到稳态，此后的中位数为 10.0 ms"
    two = np.where(np.arange(100) % 10 < 7, noisy(10.2, 100, 3), noisy(12.9, 100, 4))
    words = latency_words(make_row(clean_pass(*two)))
    assert words["steady"] == "steady from the first iteration"
    assert words["brief"] == ""
    assert words["modes"] == "2 modes: 10.2 ms (70 %), 12.9 ms (30 %)"
    drifting = latency_words(make_row(clean_pass(*np.linspace(10, 14, 200))))
    assert (drifting["brief"], drifting["steady"][:12]) == ("never steady", "never steady")


def test_the_median_of_several_clean_passes_has_an_interval():
    passes = [clean_pass(*noisy(10 + n / 100, 40, n)) for n in range(5)]
    words = latency_words(make_row(*passes))
    assert re.fullmatch(r"\d+\.\d ms to 10\.\d ms, from 5 processes", words["interval"])


def test_a_result_without_a_clean_pass_or_of_an_earlier_version_says_nothing():
    silent = dict.fromkeys(("steady", "brief", "modes", "interval", "waits"), "")
    assert latency_words(make_row(profiled_pass(1, 11.0))) == silent
    assert latency_words(AttemptMeasurement(median_ms=1.0)) == silent


def test_the_histogram_has_bars_marks_and_a_table():
    html = render_page(None, make_row(clean_pass(*CLEAN_MS)))
    bars = re.findall(r'class="histogram__bar" x="([\d.]+)"[^>]*width="([\d.]+)"', html)
    assert len(bars) >= 5
    assert float(bars[-1][0]) + float(bars[-1][1]) == pytest.approx(1000, abs=0.5)
    for name in ("median", "p90", "p99"):
        assert len(re.findall(rf'histogram__line--{name}" x1="[\d.]+"', html)) == 2
    assert html.count("<tr>") == len(bars) + 1
    assert "1 slower iteration of 500 ms is beyond the right edge." in html
    counts = [int(n) for n in re.findall(r'<td class="table__number">(\d+)</td></tr>', html)]
    assert sum(counts) == 100
    assert "Histogram of 101 iterations from 10.0 ms to 11.0 ms, median 10.5 ms." in html


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ((10.0,), "1 iteration with the profiler off, 10.0 ms: too few"),
        ((10.0, 10.0), "All 2 iterations with the profiler off took 10.0 ms"),
    ],
)
def test_equal_iterations_are_described_in_text(times, text):
    html = render_page(None, make_row(clean_pass(*times)))
    assert text in html
    assert "<svg" not in html


def test_coordinates_of_the_drawing_are_not_localized():
    row = make_row(clean_pass(*CLEAN_MS))
    with translation.override("zh-hans"):
        html = render_page(make_data(*FIVE), row)
    assert "每个算子有 5 个样本" in html
    drawing = html.split('class="histogram__plot"')[1].split("</svg>")[0]
    assert re.search(r'x="\d+\.\d+"', drawing)
    assert not re.search(r'x="\d+,\d+"', drawing)


def test_files_left_out_are_listed_with_escaped_reasons():
    left_out = (
        LeftOut("profile.json", "not_json", "The <b>file</b> is not JSON."),
        LeftOut("profile-7.json", "too_heavy", "Reading it takes more than 9 MiB of memory."),
    )
    html = render_page(make_data({"0": 0.01}, {"0": 0.01}, left_out=left_out), part="_left_out")
    assert "2 files could not be used" in html
    assert "It cannot be read." in html
    assert "exceeds the memory or time limit of this site" in html
    assert "&lt;b&gt;file&lt;/b&gt;" in html
    assert "come from \u2068profile-1.json\u2069, the first readable file" in html


class _Explanations(HTMLParser):
    """Collects the buttons of explanations and the popovers that they open."""

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


def test_each_figure_has_an_explanation_in_a_popover():
    row = make_row(clean_pass(*CLEAN_MS), profiled_pass(2, 11.0, 12.0, profile="profile-1.json"))
    explanations = _Explanations()
    explanations.feed(render_page(make_data(*FIVE), row))
    assert len(explanations.targets) >= 11
    assert set(explanations.targets) == set(explanations.texts)
    assert len(explanations.ids) == len(set(explanations.ids))
    keys = ("passes", "device_total", "coverage", "outside", "overhead", "unstable", "latency_p99")
    for key in keys:
        assert any(target.endswith(f"-{key}") for target in explanations.targets), key


@pytest.mark.parametrize("key", EXPLANATIONS)
def test_explanations_have_text_and_unit_in_both_languages(key):
    explanation = EXPLANATIONS[key]
    english = [str(text) for text in (explanation.what, explanation.unit)]
    assert all(english)
    with translation.override("zh-hans"):
        for text in english:
            assert re.search("[\u4e00-\u9fff]", translation.gettext(text))


@pytest.mark.parametrize(
    ("note", "unit"),
    [
        ("s", "seconds"),
        ("median, s", "seconds"),
        ("%", "percent"),
        ("FLOP", "FLOP, 1000 FLOP = 1 KFLOP"),
        ("byte", "byte, 1024 bytes = 1 KiB"),
        ("byte/s", "bytes per second"),
    ],
)
def test_the_help_of_a_column_has_the_unit_of_its_heading(note, unit):
    columns = [
        column
        for statistics in (True, False)
        for column in columns_available(statistics=statistics, aggregated=False)
        if column.note == note
    ]
    assert columns
    assert {str(column.about.unit) for column in columns} == {unit}
