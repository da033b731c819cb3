"""Page object of the form for a new task."""

from pathlib import Path

import numpy as np
from selenium.webdriver.support.ui import Select

from webprofile.tests.browser.conftest import PageObject


def save(folder: Path, name: str, array: np.ndarray) -> Path:
    """Save an array as the .npy file `name`."""
    np.save(folder / name, array)
    return folder / name


class Form(PageObject):
    """The form for a new task."""

    def open(self, query: str = "") -> None:
        self.open_without_command(query)
        self.until(lambda: self.lines, "the command line")
        self.unfold()
        # a later update could move a button while it is clicked
        self.until(lambda: self.find("#outlook").text, "the queue")

    def open_without_command(self, query: str) -> None:
        """Open the form with values for which it shows no command line."""
        self.browser.get(f"{self.address}/tasks/new/{query}")

    def unfold(self) -> None:
        script = "document.getElementById('options-fold').open = true"
        self.browser.execute_script(script)

    def text(self, css: str) -> str:
        return self.until(lambda: [self.find(css).text], css)[0]

    def expand(self) -> None:
        self.unfold()
        script = (
            "document.querySelectorAll('details[data-group]').forEach((d) => { d.open = true; })"
        )
        self.browser.execute_script(script)

    def choose(self, css: str, name: str) -> None:
        """Select the entry with this name, which its queue in brackets may follow."""
        select = Select(self.find(css))
        names = [option.text.split(" (")[0] for option in select.options]
        select.select_by_index(names.index(name))

    def switch_language(self, language: str) -> None:
        """Switch the page to the other language, `zh-hans` or `en`, which restores the form."""
        self.click("form.language button")
        self.until(lambda: self.find("html").get_attribute("lang") == language, language)

    def error(self, name: str) -> str:
        return self.text(f"#{name}-error")

    def visible_options(self) -> set[str]:
        boxes = (box for box in self.all("[data-option]") if box.is_displayed())
        return {box.get_attribute("data-option") for box in boxes}

    @property
    def row_status(self) -> str:
        """The message about the first row for an input."""
        return self.find(".data-row .data-row__status").text

    @property
    def focused(self) -> str:
        """Id of the focused element."""
        return self.browser.execute_script("return document.activeElement.id")

    @property
    def lines(self) -> list[str]:
        return [line.text for line in self.all(".command__text")]
