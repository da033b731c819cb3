"""The names that moved to `testdata`, for changes that are under way."""

from testdata import DATA as DATA
from testdata import bad_profile as bad_profile
from testdata import commands as commands
from testdata import good_profile as good_profile
