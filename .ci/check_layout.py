"""Check that no page of the built documentation is cut: ``check_layout.py doc/_build/html``.

Each page is rendered at 390, 1,280 and 1,440 pixels by a headless Chromium. A page must not be
wider than its window, and on the two desktop widths no table may hide columns behind a scroll bar.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = (390, 1280, 1440)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Frames are loaded one after the other; what they find is written into this page, as JSON.
HARNESS = """<!doctype html><body><pre id=found></pre><script>
const found = [], pages = %s, widths = %s;
async function look(page, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  const loaded = new Promise(resolve => { frame.onload = resolve; setTimeout(resolve, 8000); });
  frame.src = page;
  document.body.append(frame);
  await loaded;
  await new Promise(resolve => setTimeout(resolve, 150));
  const root = frame.contentDocument.documentElement;
  if (root.scrollWidth > width + 1)
    found.push([page, width, "the page", `${root.scrollWidth} of ${width}`]);
  if (width > 1000) for (const table of frame.contentDocument.querySelectorAll("article table")) {
    const name = "a table: " + table.innerText.replace(/\\s+/g, " ").slice(0, 40);
    let box = table;
    while (box && box.tagName !== "ARTICLE") {
      const hides = getComputedStyle(box).overflowX !== "visible";
      if (hides && box.scrollWidth > box.clientWidth + 1) {
        found.push([page, width, name, `${box.scrollWidth} of ${box.clientWidth}`]);
        break;
      }
      box = box.parentElement;
    }
  }
  frame.remove();
}
(async () => {
  for (const page of pages) for (const width of widths) await look(page, width);
  document.getElementById("found").textContent = JSON.stringify(found);
  document.title = "done";
})();
</script>"""


def cut(folder, browser):
    """Return a line for each page and width at which something is cut."""
    pages = sorted(
        path.as_uri()
        for path in folder.rglob("*.html")
        if not {"_static", "_modules", "generated"} & set(path.relative_to(folder).parts)
        and path.name not in ("genindex.html", "search.html")
    )
    lines = []
    for first in range(0, len(pages), 10):  # a browser for each ten pages keeps within its time
        harness = HARNESS % (json.dumps(pages[first : first + 10]), json.dumps(WIDTHS))
        with tempfile.TemporaryDirectory() as browser_folder:
            start = Path(browser_folder) / "harness.html"
            start.write_text(harness, "utf-8")
            printed = subprocess.run(
                [
                    browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                    "--disable-background-networking", "--disable-component-update",
                    "--no-first-run", "--allow-file-access-from-files", "--window-size=1600,1000",
                    f"--user-data-dir={browser_folder}/profile", "--virtual-time-budget=120000",
                    "--dump-dom", start.as_uri(),
                ],
                capture_output=True, text=True, timeout=300, check=True,
            ).stdout  # fmt: skip
        text = re.search(r"<pre id=.?found.?>(.*?)</pre>", printed, re.S)[1]
        if not text:
            raise RuntimeError(f"the browser did not finish pages {first} to {first + 10}")
        for page, width, element, needed_width in json.loads(html.unescape(text)):
            name = page.removeprefix(folder.as_uri() + "/")
            lines.append(f"{name} at {width} px: {element!r} needs {needed_width} px")
    return lines, len(pages)


def main():
    """Print what is cut; return the exit status."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("layout: not checked, because no Chromium was found")
        return 0
    lines, count = cut(Path(sys.argv[1]).resolve(), browser)
    print("\n".join(lines) if lines else f"layout of {count} pages: nothing is cut")
    return int(bool(lines) or not count)


if __name__ == "__main__":
    sys.exit(main())
