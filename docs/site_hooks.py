"""What the site needs besides the documents: pages and pictures of other files, and links.

A document links to a file of the repository as it lies (`../benchmarks/RESULTS.md`), so that links
work where the repository is browsed. On the site such a file is a page or a picture, or a name
without a link.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

# mkdocs loads this file by its path, with this folder on sys.path.
from notebook_pages import read_notebook

ROOT = Path(__file__).resolve().parents[1]
# Pages by the files that they are made from.
PAGES = {
    "recipes/wav2vec_aasist/README.md": "recipe.md",
    "recipes/papers/README.md": "papers.md",
    "recipes/demo/README.md": "small_configs.md",
    "benchmarks/RESULTS.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/notebooks/first_verdict.ipynb": "notebooks/first_verdict.md",
    "docs/notebooks/first_paper.ipynb": "notebooks/first_paper.md",
}
# Pictures of the pages above, by the names that they have on the site.
PICTURES = {"benchmarks/results.svg": "results.svg"}
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and pictures whose files lie in other folders."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.endswith(".ipynb"):
            notebook = read_notebook(text, posixpath.basename(source).removesuffix(".ipynb"))
            text = notebook.markdown
            for name, content in notebook.pictures.items():
                path = posixpath.join(posixpath.dirname(page), name)
                files.append(File.generated(config, path, content=content))
        files.append(File.generated(config, page, content=text))
    for source, picture in PICTURES.items():
        files.append(File.generated(config, picture, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with links to where the files are on the site."""
    origins = {name: source for source, name in PAGES.items()}
    path = page.file.src_uri
    origin = origins.get(path, posixpath.join("docs", path))
    return LINK.sub(lambda link: _find_target(link, origin, path), markdown)


def _find_target(link: re.Match[str], origin: str, page: str) -> str:
    sign, text, whole = link.groups()
    target, _, anchor = whole.partition("#")
    if not target or "://" in target:
        return link[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    if file in PAGES:
        target = PAGES[file]
    elif file in PICTURES:
        target = PICTURES[file]
    elif file.startswith("docs/"):
        target = file.removeprefix("docs/")
    elif sign:
        # A picture's words alone would stand on the page like a mistake.
        raise PluginError(f"{origin} shows {file}, which is not a picture of the site.")
    else:
        # A file that is not a page.
        return text
    target = posixpath.relpath(target, posixpath.dirname(page) or ".")
    address = f"{target}#{anchor}" if anchor else target
    return f"{sign}[{text}]({address})"
