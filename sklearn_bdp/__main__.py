"""Command line: ``python -m sklearn_bdp --help``."""

import sys

from sklearn_bdp._cli import main

if __name__ == "__main__":
    sys.exit(main())
