"""The offline report of a trace: training step and memory, as on the page."""

import pytest

from profiles.exports.report import report_html
from profiles.tests.opened import make_opened
from profiles.tests.passes import data_of
from profiles.tests.reports import META, PageTags
from testdata import good_profile

pytestmark = pytest.mark.django_db


def test_the_report_of_a_trace_has_phases_threads_waits_modules_and_memory(client, alice, testdata):
    folder = testdata / "traces" / "dynamic_train_mlp_scopes"
    names = ("profile.chrome_timeline.json", "profile.memory_flow.svg")
    upload = make_opened(alice, *((folder / name).read_bytes() for name in names))
    text = client.get(f"/profiles/{upload.profile.pk}/export/report/").content.decode()
    page = PageTags()
    page.feed(text)
    assert (page.loads, page.open) == ([], [])
    for place in ("phases", "lanes", "waits", "scopes"):
        assert f'id="trace-{place}"' in text
    assert "GradManager.backward" in text
    assert "fc1" in text.split('id="trace-scopes"')[1].split("</table>")[0]
    assert "Bytes that tensors hold over time" in text
    assert "<tr>" in text.split('id="memory-flow-rows"')[1].split("</table>")[0]
    assert "Timeline of what the Profiler recorded" in text
    assert "of the compiled graph" not in text
    assert "last iteration" not in text


def test_the_report_of_a_compiled_graph_says_nothing_of_a_trace():
    text = report_html(data_of(good_profile("tiny")), META)
    assert "Operators of the compiled graph" in text
    assert 'id="trace"' not in text
    assert 'id="memory-flow"' not in text
