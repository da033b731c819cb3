"""The pages of docs/reference are up to date."""

import pytest

from webprofile.tests.reference_pages import FOLDER, PAGES, page_of


@pytest.mark.parametrize("name", PAGES)
def test_page_of_the_reference_is_current(name):
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text == page_of(name), "run `make reference`"


def test_each_page_of_the_reference_is_generated():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(PAGES)
