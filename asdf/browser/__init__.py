"""A folder with a page that scores recordings in a browser, without sending anything.

ONNX Runtime Web runs the graph of the network; its files are kept in the folder. The page is that
of the service (`asdf.service`), with computation in place of requests.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.browser.folder import write_browser_folder
    from asdf.browser.runtime import find_runtime

__all__, __getattr__ = open_door(__name__)
