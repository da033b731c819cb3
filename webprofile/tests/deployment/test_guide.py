"""The deployment guide says what is so: every setting, every file and every test that it names."""

import re

from webprofile.tests.deployment.environment_names import ROOT, read_by_settings

GUIDE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_the_table_has_every_setting_and_says_which_may_be_a_file():
    told = dict(re.findall(r"^\| `([A-Z0-9_]+)` \| (file|) \|", GUIDE, re.MULTILINE))
    read = read_by_settings()
    names = {name for name in read if name.removesuffix("_FILE") not in read - {name}}
    assert names == told.keys()
    for name in names:
        assert told[name] == ("file" if f"{name}_FILE" in read else ""), name


def test_every_script_and_file_that_it_names_is_there():
    named = set(re.findall(r"\bdocker/[A-Za-z0-9./-]+[A-Za-z]", GUIDE))
    made_by_the_operator = {
        "docker/backups",
        "docker/secrets",
        "docker/certificates",
        "docker/.env",
        "docker/site.env",
    }
    for name in named:
        if not any(name.startswith(each) for each in made_by_the_operator):
            assert (ROOT / name).exists(), name


def test_every_test_that_it_names_is_one():
    here = ROOT / "webprofile" / "tests" / "deployment"
    source = "".join(path.read_text() for path in here.glob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", GUIDE):
        assert f"def {name}(" in source, name


def test_every_link_inside_leads_somewhere():
    headings = {
        re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-")
        for each in re.findall(r"^#+ (.*)$", GUIDE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", GUIDE)) <= headings
