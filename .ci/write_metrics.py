"""Write the table of metrics in ``doc/guide/metrics.md`` from the classes that define them.

Run as ``python .ci/write_metrics.py``. ``tests/metrics/test_definitions.py`` compares the table.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sklearn_bdp.metrics.table import metric_table  # noqa: E402 - needs the path above

BEGIN = "<!-- metrics -->\n\n"
END = "\n\n<!-- end of metrics -->"


def main():
    """Replace the table between the two comments."""
    page = ROOT / "doc" / "guide" / "metrics.md"
    text = page.read_text("utf-8")
    text_above, _, table_and_below = text.partition(BEGIN.rstrip())
    _, _, text_below = table_and_below.partition(END.lstrip())
    page.write_text(f"{text_above}{BEGIN}{metric_table()}{END}{text_below}", "utf-8")


if __name__ == "__main__":
    main()
