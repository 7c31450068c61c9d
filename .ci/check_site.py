"""Check the links of the built documentation: ``python .ci/check_site.py doc/_build/html``.

Every link from one built page to another leads to a file, and every fragment to an id of its page.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINK = re.compile(r"""<(?:a|img|script|link)\b[^>]*?\b(?:href|src)=["']([^"']+)["']""")
ID = re.compile(r"""\bid=["']([^"']+)["']""")


def broken(folder):
    """Return ``page -> link`` for each link that leads nowhere."""
    pages = {
        path.resolve(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts
    }
    ids_by_page = {path: set(ID.findall(text)) for path, text in pages.items()}
    broken_links = set()
    for path, text in pages.items():
        for link in LINK.findall(text):
            parts = urlsplit(link.replace("&amp;", "&"))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            fragment = unquote(parts.fragment)
            ids_of_target = ids_by_page.get(target)
            if not target.exists() or (
                fragment and ids_of_target is not None and fragment not in ids_of_target
            ):
                broken_links.add(f"{path.relative_to(folder.resolve())} -> {link}")
    return sorted(broken_links), len(pages)


def main():
    """Print what leads nowhere; return the exit status."""
    broken_links, count = broken(Path(sys.argv[1]))
    print(
        "\n".join(broken_links) if broken_links else f"links of {count} pages: all lead somewhere"
    )
    return int(bool(broken_links) or not count)


if __name__ == "__main__":
    sys.exit(main())
