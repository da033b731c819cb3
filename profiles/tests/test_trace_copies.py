"""Copies between devices in a trace: only the time in which both devices copy counts."""

import pytest

from profiles.analysis.timeline import timeline
from profiles.tests.imports import make_import
from profiles.tests.pages import whole_page
from profiles.tests.traces import (
    DEVICE,
    HOST,
    NAMES,
    WORKER,
    enclose,
    operator,
    read,
    span,
    thread_names,
    to_trace,
)

pytestmark = pytest.mark.database

OTHER = 3
LANES = thread_names({**NAMES, OTHER: "cpu1:0"})


def copy_events(number, *on_devices):
    """Return the events of a copy as MegEngine 1.13 writes it, with a span on each device."""
    arguments = {"__id__": number, "__name__": "Copy", "__device__": "invalid"}
    return [
        *span(HOST, "OpDispatch", number, number, **arguments),
        *span(WORKER, "Copy", number + 1, number + 3, **arguments),
        *(
            event
            for lane, begin, end in on_devices
            for event in span(lane, "Copy", begin, end, **arguments)
        ),
    ]


#: the second device waits from 20 us; the first device starts the copy at 900 us; it takes 4 us
LATE = [
    *operator(10, "Convolution", 0, 890, "y:0"),
    *copy_events(20, (OTHER, 20, 904), (DEVICE, 900, 904)),
]


def device_times_us(profile):
    columns = profile.columns
    pairs = zip(columns.ids, columns.device.end_s.tolist(), strict=True)
    return {number: round(time_s * 1e6, 3) for number, time_s in pairs}


def test_a_copy_takes_the_time_in_which_its_devices_overlap(tmp_path):
    profile = read(tmp_path, to_trace(*enclose(span(HOST, "net", 0, 30), *LATE), *LANES))
    assert device_times_us(profile) == {"10": 890, "20": 4}
    assert profile.columns.device.total_s() == pytest.approx(894e-6)
    (phase,), (scope,) = profile.summary.phases, profile.summary.scopes
    assert phase.device_s == scope.device_s == pytest.approx(894e-6)
    # a waiting device does nothing else, so its lane has the whole span of the file
    busy = {lane.name: round(lane.busy_s * 1e6) for lane in profile.summary.lanes}
    assert (busy["xpux:0"], busy["cpu1:0"]) == (894, 884)
    assert (profile.summary.copies, round(profile.summary.copies_waited_s * 1e6)) == (1, 880)


@pytest.mark.parametrize(
    ("on_devices", "expected_us"),
    [
        # twice on each lane, as if a tensor were computed again
        ([(DEVICE, 0, 10), (OTHER, 6, 12), (DEVICE, 20, 30), (OTHER, 15, 23)], 4 + 3),
        # never at the same time
        ([(DEVICE, 0, 10), (OTHER, 10, 30)], 0),
        # consecutive kernels on one device
        ([(DEVICE, 0, 10), (DEVICE, 12, 15)], 13),
    ],
    ids=["twice", "apart", "one device"],
)
def test_kernels_add_up_on_one_device_and_overlap_on_several(tmp_path, on_devices, expected_us):
    profile = read(tmp_path, to_trace(*copy_events(20, *on_devices), *LANES))
    assert device_times_us(profile) == {"20": expected_us}


def test_a_merged_trace_keeps_its_processes_apart(tmp_path):
    """merge_trace_events() of MegEngine joins traces of several processes, which number alike."""

    def alive(at, number):
        return {
            "ph": "C",
            "name": "nr_alive",
            "pid": 1,
            "tid": 0,
            "ts": at,
            "args": {"value": number},
        }

    first = [
        *enclose(span(HOST, "conv", 0, 20), *operator(10, "Convolution", 1, 5, "conv.y:0")),
        *(alive(at, 3 + at) for at in (0, 1)),
    ]
    second = [
        *enclose(span(HOST, "fc", 5, 30), *operator(10, "MatrixMul", 9, 7, "fc.y:0")),
        *(alive(at, 70) for at in (0, 1)),
        *thread_names({**NAMES, DEVICE: "xpux:1"}),
    ]
    profile = read(tmp_path, to_trace(*first, *(event | {"pid": 2} for event in second)))
    columns, summary = profile.columns, profile.summary
    assert (columns.ids, columns.names) == (("10", "10"), ("conv.y", "fc.y"))
    assert columns.types.texts() == ["Convolution", "MatrixMul"]
    assert columns.device.end_s == pytest.approx([5e-6, 7e-6])
    assert {row.path: row.device_s for row in summary.scopes} == {
        ("conv",): pytest.approx(5e-6),
        ("fc",): pytest.approx(7e-6),
    }
    assert sum(phase.device_s for phase in summary.phases) == pytest.approx(12e-6)
    assert [(c.name, c.lowest, c.highest) for c in summary.curves] == [
        ("1 nr_alive", 3, 4),
        ("2 nr_alive", 70, 70),
    ]
    assert (summary.copies, summary.repeated) == (0, 0)
    drawn = timeline(profile.graph, columns.types, one_clock=True)
    assert [lane.name for lane in drawn.lanes] == ["worker (1)", "worker (2)", "xpux:0", "xpux:1"]


@pytest.mark.django_db
@pytest.mark.usefixtures("storage")
def test_page_and_report_show_the_excluded_waiting_time(client, alice):
    profile = make_import(alice, to_trace(*LATE, *LANES)).profile
    sentence = "waited for another (880 µs) is not attributed to any operator"
    for address in ("", "export/report/"):
        assert sentence in whole_page(client, f"/profiles/{profile.pk}/{address}")
    chart = client.get(f"/api/v1/profiles/{profile.pk}/charts/timeline/").json()
    assert "including the time during which that device waited for the other" in chart["notes"][0]
    without_copies = make_import(alice, to_trace(*operator(10, "ADD", 0, 5, "a:0"))).profile
    assert "waited for another" not in whole_page(client, f"/profiles/{without_copies.pk}/")
