"""The form of a new task, as a user fills it in."""

from selenium.common.exceptions import (
    StaleElementReferenceException,
    TimeoutException,
    WebDriverException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait


class Form:
    """Somebody at the form."""

    def __init__(self, browser, address: str) -> None:
        self.browser, self.address = browser, address

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

    def find(self, css: str):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def click(self, css: str) -> None:
        """In the middle of the window: the bar with the button covers what is at its edge."""
        element = self.find(css)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def all(self, css: str):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def until(self, condition, what: str):
        """What `condition` gives at last; parts may be swapped while it looks at them."""
        swapped = [StaleElementReferenceException]
        wait = WebDriverWait(self.browser, 20, 0.1, ignored_exceptions=swapped)

        def look(_):
            try:
                return condition()
            except WebDriverException as error:
                # chromedriver has no class of its own for a part that is replaced while it is read
                if "does not belong to the document" in str(error):
                    return False
                raise

        try:
            return wait.until(look, f"never saw {what}")
        except TimeoutException as error:
            errors = [each.text for each in self.all("[role=alert]") if each.text]
            raise AssertionError(f"never saw {what}; the page says {errors}") from error

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
