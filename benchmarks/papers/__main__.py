"""Print the papers' table of constants beside ours: ``python -m benchmarks.papers``."""

import argparse

from benchmarks.papers.table import rows, text


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evidence", action="store_true", help="with function and test")
    options = parser.parse_args()
    paper = None
    for row in rows():
        if row.paper != paper:
            paper = row.paper
            print(f"\n{paper}\n{'label':<20}{'quantity':<66}{'paper':>22}{'ours':>22}  status")
        print(
            f"{row.label:<20}{row.quantity:<66}{text(row.printed):>22}{text(row.ours):>22}  "
            f"{row.status}"
        )
        if options.evidence:
            print(f"{'':<20}{row.function}\n{'':<20}{row.test}")


if __name__ == "__main__":
    main()
