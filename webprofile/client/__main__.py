"""Run the client without installing it: `python -m webprofile.client`."""

import sys

from webprofile.client.program import main

sys.exit(main())
