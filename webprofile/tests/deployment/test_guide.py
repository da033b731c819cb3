"""The deployment guide only names existing settings, scripts, files and tests."""

import re
import tomllib

import pytest

from webprofile.tests.deployment.environment_names import ROOT, read_by_settings
from webprofile.tests.reference_pages import SETTINGS

GUIDE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
GROUPS = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["group"]


def test_reference_lists_each_setting():
    read = read_by_settings()
    names = {name for name in read if name.removesuffix("_FILE") not in read - {name}}
    documented = [name for group in GROUPS if "read_by" not in group for name in group["settings"]]
    assert sorted(names) == sorted(documented)


@pytest.mark.parametrize("group", [group for group in GROUPS if "read_by" in group])
def test_container_scripts_read_the_settings_of_the_reference(group):
    files = (path for path in (ROOT / group["read_by"]).iterdir() if path.is_file())
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    assert set(group["settings"]) <= set(re.findall(r"[A-Z0-9_]{3,}", source))


def test_files_named_in_the_guide_exist():
    file_names = set(re.findall(r"\bdocker/[A-Za-z0-9./-]+[A-Za-z]", GUIDE))
    operator_files = {
        "docker/backups",
        "docker/secrets",
        "docker/certificates",
        "docker/.env",
        "docker/site.env",
    }
    for name in file_names:
        if not any(name.startswith(prefix) for prefix in operator_files):
            assert (ROOT / name).exists(), name


def test_tests_named_in_the_guide_exist():
    here = ROOT / "webprofile" / "tests" / "deployment"
    source = "".join(path.read_text() for path in here.glob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", GUIDE):
        assert f"def {name}(" in source, name


def test_internal_links_of_the_guide_have_targets():
    headings = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", GUIDE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", GUIDE)) <= headings
