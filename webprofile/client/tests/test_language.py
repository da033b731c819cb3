"""The client sends the language of its terminal to the site."""

import pytest

from webprofile.client.api import accept_language


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh-CN, zh"),
        ({"LANG": "de_DE@euro"}, "de-DE, de"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_GB.UTF-8"}, "en-GB, en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN"}, "zh-CN, zh"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh-CN, zh, en, en-US"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "zh_CN\r\nX-Evil: 1"}, "en"),
    ],
)
def test_accept_language_follows_the_environment(environment, language):
    assert accept_language(environment) == language


def test_messages_of_the_site_are_in_the_language_of_the_terminal(client, alice):
    client.environment["LANG"] = "zh_CN.UTF-8"
    stderr = client.run("list", "--created-after", "yesterday", code=2).stderr
    assert "地址中的部分值有误" in stderr
    client.environment["LANG"] = "en_US.UTF-8"
    stderr = client.run("list", "--created-after", "yesterday", code=2).stderr
    assert "Some values in the address are wrong" in stderr
