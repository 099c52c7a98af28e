"""What the site needs next to the documents: files of other folders as pages, and links to them.

A document links to a file of the repository as it lies (`../benchmarks/RESULTS.md`), so that links
work where the repository is browsed. On the site such a file is a page, or a name without a link.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Pages by the files that they are made from.
PAGES = {
    "recipes/wav2vec_aasist/README.md": "recipe.md",
    "benchmarks/RESULTS.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages whose files lie in other folders."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with links to where the files are on the site."""
    origins = {name: source for source, name in PAGES.items()}
    path = page.file.src_uri
    origin = origins.get(path, posixpath.join("docs", path))
    return LINK.sub(lambda link: _find_target(link, origin, path), markdown)


def _find_target(link: re.Match[str], origin: str, page: str) -> str:
    text, whole = link.groups()
    target, _, anchor = whole.partition("#")
    if not target or "://" in target:
        return link[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    if file in PAGES:
        target = PAGES[file]
    elif file.startswith("docs/"):
        target = file.removeprefix("docs/")
    else:
        # A file that is no page.
        return text
    target = posixpath.relpath(target, posixpath.dirname(page) or ".")
    return f"[{text}]({target}#{anchor})" if anchor else f"[{text}]({target})"
