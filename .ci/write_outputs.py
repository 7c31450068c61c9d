"""Write what the code blocks of documentation pages print below them.

Run as ``python .ci/write_outputs.py README.md doc/start/index.md``: outputs that stand after an
``<!-- output -->`` comment are replaced; ``--new`` adds those of blocks that print and show none.
``tests/test_docs.py`` compares them.
"""

import contextlib
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.test_docs import BLOCK, OUTPUT, expected_outputs  # noqa: E402 - needs the path above


def rewrite(page, new):
    """Replace the outputs of one page."""
    text, names, result, end = page.read_text("utf-8"), {"__name__": "__main__"}, [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block, expected in zip(BLOCK.finditer(text), expected_outputs(page), strict=True):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(block[1], str(page), "exec"), names)
            result.append(text[end : block.end()])
            end = block.end()
            visible = block[0].startswith("```") and printed.getvalue()
            if expected is not None:
                end = OUTPUT.search(text, end).end()
            if visible and (expected is not None or new):
                result.append(f"\n\n<!-- output -->\n```text\n{printed.getvalue().rstrip()}\n```")
    page.write_text("".join([*result, text[end:]]), encoding="utf-8")


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    warnings.simplefilter("ignore")
    for name in sys.argv[1:]:
        if not name.startswith("--"):
            rewrite(Path(name).resolve(), "--new" in sys.argv)
