import pytest
from pydantic import ValidationError

from agent.protocol import Script


@pytest.mark.parametrize(
    "given",
    [
        {"entry": "../main.py"},
        {"entry": "/etc/main.py"},
        {"entry": "a/../main.py"},
        {"entry": "main.sh"},
        {"entry": "-m.py"},
        {"arguments": ["a\x00b"]},
        {"arguments": ["a", "\x01"]},
        {"arguments": ["a\x0bb"]},
        {"arguments": ["\x1b[1m"]},
        {"arguments": ["\x7f"]},
        {"arguments": ["x"] * 65},
        {"formats": []},
        {"formats": ["chrome_timeline.json", "chrome_timeline.json"]},
        {"formats": ["other.json"]},
        {"sample_rate": -1},
    ],
)
def test_a_script_that_could_not_be_run_is_refused(given):
    with pytest.raises(ValidationError):
        Script.model_validate(given)


def test_a_script_is_recorded_as_a_timeline_unless_told_otherwise():
    script = Script(entry="train/main one.py", arguments=("--epochs", "1", ""))
    assert script.formats == ("chrome_timeline.json",)
    assert script.profile_device


def test_arguments_may_have_lines_tabs_and_any_language():
    arguments = ("a\nb", "a\r\nb", "a\tb", "训练 🙂", "'\"\\")
    assert Script(arguments=arguments).arguments == arguments
