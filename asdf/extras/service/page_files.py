"""The page's files, and the description of the routes as a page without scripts.

Invariant: all addresses in a page are the service's own; the files sent are part of this package
and are read once. The style, and the scripts of elements and themes, are those of the report
(`asdf.report`).
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_SCRIPTS = (
    *("dom", "theme", "axes", "words", "upload", "microphone", "playing", "picture", "result"),
    *("list", "asking", "service"),
)
# The rest of the page: the microphone's script loads the recorder's, which has its own thread.
_FILES = ("style.css", "service.css", "icon.svg", "recorder.js", *(f"{s}.js" for s in _SCRIPTS))
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_CODE = re.compile(r"`([^`]*)`")


def _mark(text: str) -> Markup:
    """Return a text as HTML, with code between backticks."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


class PageFiles:
    """The files of the page.

    Attributes:
        page: HTML of the page itself.
        contents: Content and media type of each other file, by name.
    """

    def __init__(self, about: dict[str, Any]) -> None:
        """Read the files; `about` is the page's data on the detector and the limits."""
        self.contents: dict[str, tuple[bytes, str]] = {}
        for name in _FILES:
            own = files("asdf.extras.service") / "page" / name
            path = own if own.is_file() else files("asdf.report") / "page" / name
            self.contents[name] = (path.read_bytes(), _KINDS[name.rpartition(".")[2]])
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
        self.page = page.render(about=about, data=data, scripts=_SCRIPTS)

    def describe(self, openapi: dict[str, Any]) -> str:
        """Return the HTML page of an OpenAPI description."""
        return self._templates.get_template("docs.html").render(api=openapi)
