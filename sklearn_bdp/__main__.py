"""Command line: ``python -m sklearn_bdp ledger show|verify|export PATH``."""

import sys

from sklearn_bdp._cli import main

if __name__ == "__main__":
    sys.exit(main())
