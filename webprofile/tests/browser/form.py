"""The form of a new task, as a user fills it in."""

from selenium.webdriver.support.ui import Select

from webprofile.tests.browser.conftest import PageObject


class Form(PageObject):
    """Somebody at the form."""

    def open(self, query: str = "") -> None:
        self.open_without_command(query)
        self.until(lambda: self.lines, "the command line")
        self.unfold()
        # what comes later could move a button away from under a click
        self.until(lambda: self.find("#outlook").text, "the queue")

    def open_without_command(self, query: str) -> None:
        """Where something is wrong with what the form starts from."""
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
        """The entry of that name; a device's queue may stand behind it, in brackets."""
        select = Select(self.find(css))
        names = [option.text.split(" (")[0] for option in select.options]
        select.select_by_index(names.index(name))

    def error(self, name: str) -> str:
        return self.text(f"#{name}-error")

    def seen(self) -> set[str]:
        shown = (box for box in self.all("[data-option]") if box.is_displayed())
        return {box.get_attribute("data-option") for box in shown}

    @property
    def focused(self) -> str:
        """The id of what has the keyboard."""
        return self.browser.execute_script("return document.activeElement.id")

    @property
    def lines(self) -> list[str]:
        return [line.text for line in self.all(".command__text")]
