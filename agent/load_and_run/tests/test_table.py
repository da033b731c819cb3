"""The runner's flags and the product's table of options are two copies of one truth."""

import pytest
from load_and_run.flag_table import GROUPS, NO_LIMIT

from agent.protocol.option_table import OPTIONS

FLAGS = {name: row for group in GROUPS.values() for name, row in group.items()}
#: on by default for users: see the table
OTHER_DEFAULTS = {"no_sanity_check"}
#: for users a switch, since the agent chooses the file
SWITCHES = {"profile_host"}


def test_both_know_the_same_options():
    assert set(OPTIONS) == set(FLAGS) - {"help", "version"}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_option_has_the_same_type_and_default_in_both(name):
    kind, default, _ = FLAGS[name]
    assert OPTIONS[name].type == kind
    if name in SWITCHES:
        return
    assert (OPTIONS[name].default == default) is (name not in OTHER_DEFAULTS)
    if name == "workspace_limit":
        assert default == NO_LIMIT
