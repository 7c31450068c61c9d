"""Export the committed tree for a distribution: ``export.py FOLDER [URL]``.

An index shows README.md on a page of its own, where relative links and pictures lead nowhere. With
the ``URL`` of the repository they become absolute, at the tag of this version, and the distribution
names the URL. Without it links become plain text and pictures are left out.
"""

import re
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#)([^)]+)\)")


def absolute(text, url, tag):
    """Return Markdown whose relative links are absolute, or gone where there is no URL."""

    def replaced(match):
        picture, words, target = match.groups()
        if url:
            return f"{picture}[{words}]({url}/{'raw' if picture else 'blob'}/{tag}/{target})"
        return "" if picture else words

    return LINK.sub(replaced, text)


def main(folder, url=""):
    """Export the tree, links mended."""
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    packed = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    version = re.search(r'"(.*)"', (folder / "sklearn_bdp/_version.py").read_text("utf-8"))[1]
    readme, setup = folder / "README.md", folder / "setup.cfg"
    url = url.rstrip("/")
    readme.write_text(absolute(readme.read_text("utf-8"), url, f"v{version}"), "utf-8")
    if url:
        named = f"author = The sklearn_bdp developers\nurl = {url}\nproject_urls =\n"
        named += f"    Changelog = {url}/blob/v{version}/CHANGELOG.md\n"
        named += f"    Issues = {url}/issues\n"
        text = setup.read_text("utf-8")
        setup.write_text(text.replace("author = The sklearn_bdp developers\n", named), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
