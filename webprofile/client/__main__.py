"""`python -m webprofile.client`: the program without its installation."""

import sys

from webprofile.client.program import main

sys.exit(main())
