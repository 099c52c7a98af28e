"""A notebook as a page of the site: its text, its code, and its outputs with their pictures.

Plain Markdown, because pages that notebook exporters write load scripts from other servers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NOTE = (
    "*This page is a notebook: `docs/notebooks/{}.ipynb`, with the outputs of its last run. "
    "Open it in Jupyter to run it.*"
)
_SHELL = "%%bash\n"


@dataclass(frozen=True)
class NotebookPage:
    """A notebook as Markdown.

    Attributes:
        pictures: Content of each PNG file that the page shows from its own folder, by its name.
    """

    markdown: str
    pictures: dict[str, bytes]


def read_notebook(text: str, name: str) -> NotebookPage:
    """Return the page of a notebook.

    Args:
        text: Content of the file.
        name: Name of the notebook without suffix, which its pictures' names begin with.
    """
    parts = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(_as_code(source))
        for output in cell["outputs"]:
            parts += _show(output, cell["metadata"].get("alt", ""), name, pictures)
    # Below the title.
    parts[0] = parts[0].replace("\n", f"\n\n{NOTE.format(name)}\n", 1)
    return NotebookPage("\n\n".join(parts) + "\n", pictures)


def _as_code(source: str) -> str:
    if source.startswith(_SHELL):
        return f"```bash\n{source.removeprefix(_SHELL)}\n```"
    return f"```python\n{source}\n```"


def _show(
    output: dict[str, Any], words: str, name: str, pictures: dict[str, bytes]
) -> Iterator[str]:
    """Yield what an output is on the page; add its picture."""
    shown = output.get("data", {})
    if "image/png" in shown:
        picture = f"{name}_{len(pictures) + 1}.png"
        pictures[picture] = base64.b64decode("".join(shown["image/png"]))
        yield f"![{words}]({picture})"
        return
    text = "".join(output.get("text", shown.get("text/plain", ""))).rstrip()
    # Longer than any fence in the text.
    if text:
        yield f"````text\n{text}\n````"
