"""The dashboard and the alerts only name existing metrics and labels."""

import json
import re

import pytest
import yaml
from django.conf import settings
from django.test import override_settings
from django.utils import timezone
from prometheus_client import REGISTRY

from tasks.models import Mark
from webprofile.observability import exposition
from webprofile.operations.metrics import DESCRIPTIONS, rows, rows_registry
from webprofile.tests.permission_site import rolled_back

pytestmark = pytest.mark.django_db

FOLDER = settings.BASE_DIR / "docs" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
#: labels that Prometheus adds
PROMETHEUS_LABELS = {"job", "instance", "le"}
FUNCTIONS = {
    "sum", "max", "min", "count", "by", "rate", "increase", "histogram_quantile", "time", "and",
    "offset", "min_over_time",
}  # fmt: skip
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-z_][a-z0-9_]*)\{([^}]*)\}")
_DURATION = re.compile(r"\[\d+[smhd]\]|\boffset \d+[smhd]\b")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions():
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for group in RULES["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.fixture(scope="module")
def metric_labels(django_db_setup, django_db_blocker, tmp_path_factory):
    """Labels of all metrics by the names of their series."""
    home = override_settings(HOME=tmp_path_factory.mktemp("home"))
    with home, django_db_blocker.unblock(), rolled_back():
        return labels_by_metric()


def labels_by_metric():
    Mark.objects.create(name="attempts_counted", at=timezone.now())
    rows.forget()
    labels_of = {"up": set()}
    for metric in REGISTRY._collector_to_names:
        for name in REGISTRY._collector_to_names[metric]:
            labels_of[name] = set(getattr(metric, "_labelnames", ()))
    for registry in (rows_registry, exposition.build_registry()):
        for family in registry.collect():
            labels = {name for sample in family.samples for name in sample.labels}
            ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
            labels_of[family.name + ending] = labels
    labels_of["mgw_attempts_ended_total"] = {"outcome", "reason"}
    labels_of["mgw_database_pool"] = {"state"}  # only on PostgreSQL
    rows.forget()
    return labels_of


def words_of(expression):
    """Return the selectors of an expression as (metric, labels), and all its words."""
    bare = _DURATION.sub("", expression)
    selected = [
        (name, set(re.findall(r"([a-z_]+)\s*[=!]", inside)))
        for name, inside in _SELECTOR.findall(_STRING.sub('""', bare))
    ]
    plain = _SELECTOR.sub(r"\1", _STRING.sub('""', bare))
    return selected, _WORD.findall(plain)


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_expression_uses_only_existing_metrics_and_labels(metric_labels, title, expression):
    selected, words = words_of(expression)
    metrics = {word for word in words if word in metric_labels}
    assert metrics, expression
    labels = set().union(*(metric_labels[name] for name in metrics)) | PROMETHEUS_LABELS
    assert set(words) - metrics - FUNCTIONS - labels == set()
    for name, label_names in selected:
        assert label_names <= metric_labels[name] | PROMETHEUS_LABELS


def test_dashboard_and_alerts_use_each_metric(metric_labels):
    text = " ".join(expression for _, expression in expressions())
    own_metrics = {name for name in metric_labels if name.startswith("mgw_")}
    endings = r"_(bucket|sum|count|total|created)$"
    used_names = set(re.findall(r"mgw_\w+", text))
    bases = {re.sub(endings, "", name) for name in used_names}
    assert {re.sub(endings, "", name) for name in own_metrics} - bases == set()


def test_values_read_from_the_database_are_not_summed():
    """Each web process reads the same rows, so their sum would count rows several times."""
    of_rows = {name for name in DESCRIPTIONS if "_pool" not in name}
    for _, expression in expressions():
        for name in re.findall(r"sum[^(]*\((?:by \([^)]*\) )?\(?(mgw_\w+)", expression):
            assert name not in of_rows, expression


def test_each_panel_has_a_title_a_unit_and_its_own_place():
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
    for panel in panels():
        assert panel["title"] and panel["fieldConfig"]["defaults"]["unit"]


def test_each_alert_has_a_severity_a_summary_and_an_action():
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in {"page", "ticket"}
            assert {"summary", "action"} == rule["annotations"].keys()


def test_alert_about_an_increase_tells_the_increase_and_not_the_total():
    """`$value` is the left side of the comparison."""
    rules = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
    increases = [rule for rule in rules.values() if " than " in rule["annotations"]["summary"]]
    assert rules["AgentsLost"] in increases
    for rule in increases:
        assert " offset " in rule["expr"].rpartition(" > ")[0]


def test_reference_lists_each_metric_with_its_labels(metric_labels):
    text = (settings.BASE_DIR / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(mgw_\w+)` \| \w+ \| ([^|]*) \|", text, re.MULTILINE)
    documented = {name: set(labels.split(", ")) - {""} for name, labels in rows}
    assert {name: metric_labels[name] for name in documented} == documented
    own_metrics = {
        name
        for name in metric_labels
        if name.startswith("mgw_") and not re.search(r"_(bucket|sum|count|created)$", name)
    }
    assert {
        name for name in own_metrics if not {name, f"{name}_total"} & documented.keys()
    } == set()


def test_monitoring_page_names_only_existing_metrics(metric_labels):
    text = (settings.BASE_DIR / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert set(re.findall(r"mgw_\w+", text)) <= metric_labels.keys()
