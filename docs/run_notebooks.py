"""Run the notebooks of docs/notebooks, and store their outputs and the pictures of their pages.

    python -m docs.run_notebooks                 # all
    python -m docs.run_notebooks first_verdict   # one

Each runs in an empty folder. What is stored follows from the cells and the version of ASDF: no
times, no paths of this machine. Chromium and its driver take the pictures of pages.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from asdf.runs.files import write_text
from asdf.version import VERSION

FOLDER = Path(__file__).parent / "notebooks"
PATIENCE_S = 900
# Part of a page that a notebook writes, as a selector of CSS, and the picture of it.
PAGES = {
    "first_verdict": ("case.html", "#recording-1 figure", "first_verdict_case.png"),
    "first_paper": ("study/output/study.html", "#set-1 .pair", "first_paper_report.png"),
}
# Pictures that a notebook writes and a document shows, by their names.
COPIED = {"first_verdict": {"why - excerpt.svg": "why.svg", "ratios-tippett.svg": "tippett.svg"}}
# A column of the site's text.
WINDOW = (1000, 900)


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all of them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(notebook, Path(folder))
            page, part, picture = PAGES[path.stem]
            take_picture(Path(folder, page), part, FOLDER / picture)
            for written, shown in COPIED.get(path.stem, {}).items():
                shutil.copyfile(Path(folder, written), FOLDER.parent / shown)
        notebook["metadata"]["asdf"] = made_by(notebook)
        write_text(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def run(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the notebook with the outputs that it has in a folder.

    Raises:
        CellExecutionError: a cell failed.
    """
    import nbformat
    from nbclient import NotebookClient

    node = nbformat.reads(json.dumps(notebook), as_version=4)
    client = NotebookClient(
        node,
        kernel_name="python3",
        timeout=PATIENCE_S,
        resources={"metadata": {"path": str(folder)}},
        # Times of this run.
        record_timing=False,
        # A message that arrives in two pieces is one output.
        coalesce_streams=True,
    )
    client.execute()
    executed: dict[str, Any] = json.loads(nbformat.writes(node))
    executed["metadata"] = notebook["metadata"]
    return executed


def made_by(notebook: dict[str, Any]) -> dict[str, str]:
    """Return what the outputs of a notebook follow from: ASDF's version, and its cells."""
    digest = hashlib.sha256()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        digest.update(f"{cell['cell_type']}\n{source}\n".encode())
    return {"version": VERSION, "cells": digest.hexdigest()}


def take_picture(page: Path, part: str, picture: Path) -> None:
    """Write the picture of a part of a page."""
    from selenium.webdriver.common.by import By

    from docs.screenshots import start_browser

    with tempfile.TemporaryDirectory() as folder:
        browser = start_browser(Path(folder))
        try:
            browser.set_window_size(*WINDOW)
            browser.get(page.resolve().as_uri())
            shown = browser.find_element(By.CSS_SELECTOR, part)
            # Buttons do nothing in a picture.
            browser.execute_script("document.querySelectorAll('.tools').forEach(e => e.remove())")
            browser.execute_script("arguments[0].scrollIntoView()", shown)
            shown.screenshot(str(picture))
        finally:
            browser.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
