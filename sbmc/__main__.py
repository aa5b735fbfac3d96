"""`python -m sbmc` is the same as `sbmc`."""

import sys

from sbmc.cli import main

if __name__ == "__main__":
    sys.exit(main())
