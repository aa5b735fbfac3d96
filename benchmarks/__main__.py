"""`python -m benchmarks`: the engine's benchmark."""

import sys

from benchmarks.engine import main

sys.exit(main())
