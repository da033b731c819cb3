"""load_and_run is imported as the runtime's interpreter does it: as a package of its own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
