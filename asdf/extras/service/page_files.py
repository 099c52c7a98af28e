"""The page's files, and the description of the routes as a page without scripts.

Invariant: all addresses in a page are the service's own; the files sent are part of this package
and are read once. The style, and the scripts of elements and themes, are those of the report
(`asdf.report`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_SHARED_SCRIPTS = ("dom", "theme")
_LOCAL_SCRIPTS = (
    "axes",
    "words",
    "upload",
    "microphone",
    "playing",
    "picture",
    "result",
    "list",
    "asking",
    "service",
)
SCRIPTS = (*_SHARED_SCRIPTS, *_LOCAL_SCRIPTS)
_SHARED = ("style.css", *(f"{name}.js" for name in _SHARED_SCRIPTS))
# The microphone's script loads the recorder's, which runs in its own thread.
_LOCAL = (
    *("service.css", "icon.svg", "recorder.js"),
    *(f"{name}.js" for name in _LOCAL_SCRIPTS),
)
_CODE = re.compile(r"`([^`]*)`")
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class File:
    """A file with its media type."""

    content: bytes
    kind: str


def _mark(text: str) -> Markup:
    """Return a text as HTML, with code between backticks."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


class PageFiles:
    """The files of the page.

    Attributes:
        page: HTML of the page itself.
    """

    def __init__(self, about: dict[str, Any]) -> None:
        """Read the files; `about` is the page's data on the detector and the limits."""
        self._files = {}
        for package, names in (("asdf.report", _SHARED), ("asdf.extras.service", _LOCAL)):
            for name in names:
                content = (files(package) / "page" / name).read_bytes()
                self._files[name] = File(content, _KINDS[name.rpartition(".")[2]])
        self._templates = Environment(
            loader=PackageLoader("asdf.extras.service", "page"),
            autoescape=True,
            undefined=StrictUndefined,  # a misspelt name is an error instead of a gap
            trim_blocks=True,
        )
        self._templates.filters["marked"] = _mark
        # Within a script element, no '<' may begin a tag.
        data = json.dumps(about).replace("<", "\\u003c")
        page = self._templates.get_template("page.html")
        self.page = page.render(about=about, data=data, scripts=SCRIPTS)

    def find(self, name: str) -> File | None:
        """Return the file with that name."""
        return self._files.get(name)

    def describe(self, openapi: dict[str, Any]) -> str:
        """Return the HTML page of an OpenAPI description."""
        return self._templates.get_template("docs.html").render(api=openapi)
