"""A page as PDF, printed by an installed browser.

Invariant: the same page gives the same bytes on the same browser: its dates in the file are
replaced by that of the case, or by the first day of 1970, and elements are numbered from 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.runs.files import atomic_write

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT_S = 120
_OPTIONS = (
    "--headless",
    # Chromium does not start as root with its sandbox; the page that it opens is our own.
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A header would show the date of printing, and the footer a temporary path.
    "--no-pdf-header-footer",
)
# As in (D:20261126010101+00'00'); replacements of equal length leave all offsets unchanged.
_DATE = re.compile(rb"\(D:\d{14}\+00'00'\)")
_NO_DATE = "19700101000000"
# Names of the page's elements: a busy browser starts to count at another number.
_NODE = re.compile(rb"node(\d{8})")


def find_browser() -> str:
    """Return the path of Chromium or Chrome.

    Raises:
        UsageError: none is installed.
    """
    for name in _BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise UsageError(
        "a PDF is printed by Chromium or Chrome, but neither is on PATH: install one, or print "
        "the page of --output from any browser."
    )


def print_page(page: str, path: Path, date: str = "") -> None:
    """Print a page, as HTML, to a PDF.

    Args:
        date: Date of the file, as digits of year, month and day with separators; '': none.

    Raises:
        UsageError: no browser is installed.
        AsdfError: the browser fails, or the file cannot be written.
    """
    browser = find_browser()
    # By default, a browser writes a profile to the user's home, which may be read-only.
    with tempfile.TemporaryDirectory(prefix="asdf-case-", ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "case.html"
        printed = Path(folder) / "case.pdf"
        source.write_text(page, encoding="utf-8")
        profile = f"--user-data-dir={folder}/profile"
        command = [browser, *_OPTIONS, profile, f"--print-to-pdf={printed}", source.as_uri()]
        try:
            ended = subprocess.run(
                command,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
                text=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AsdfError(f"{browser} cannot print the page: {error}.") from None
        if not printed.is_file():
            last = (ended.stderr.strip().splitlines() or ["it gave no reason"])[-1]
            raise AsdfError(f"{browser} did not print the page: {last}.")
        content = printed.read_bytes()
    # Replaces the dates that the browser wrote.
    digits = re.sub(r"\D", "", date)[:8]
    stamp = f"{digits}000000" if len(digits) == 8 else _NO_DATE
    dated = _DATE.sub(f"(D:{stamp}+00'00')".encode(), content)
    with atomic_write(path, "wb") as file:
        file.write(count_nodes_from_one(dated))


def count_nodes_from_one(content: bytes) -> bytes:
    """Return a PDF with elements numbered from 1, in the same order and with equal length."""
    numbers = [int(number) for number in _NODE.findall(content)]
    before = min(numbers, default=1) - 1
    return _NODE.sub(lambda match: b"node%08d" % (int(match[1]) - before), content)
