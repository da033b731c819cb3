"""What every test may use."""

import pathlib

import pytest

#: real models, inputs, profiles and broken files, used in place
DATA = pathlib.Path(__file__).resolve().parent.parent / "shared" / "data"


@pytest.fixture
def shared_data() -> pathlib.Path:
    """The folder of real data beside the repository; a test that needs it fails where it is missing."""
    assert DATA.is_dir(), f"no test data at {DATA}"
    return DATA
