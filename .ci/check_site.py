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
    names = {path: set(ID.findall(text)) for path, text in pages.items()}
    lost = set()
    for path, text in pages.items():
        for link in LINK.findall(text):
            parts = urlsplit(link.replace("&amp;", "&"))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            fragment = unquote(parts.fragment)
            known = names.get(target)
            if not target.exists() or (fragment and known is not None and fragment not in known):
                lost.add(f"{path.relative_to(folder.resolve())} -> {link}")
    return sorted(lost), len(pages)


def main():
    """Print what leads nowhere; return the exit status."""
    lost, count = broken(Path(sys.argv[1]))
    print("\n".join(lost) if lost else f"links of {count} pages: all lead somewhere")
    return int(bool(lost) or not count)


if __name__ == "__main__":
    sys.exit(main())
