"""The files of a runtime, as far as a folder needs them to be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from asdf.browser.runtime import GLUE, SCRIPT, WASM
from tests.unit.service.conftest import network

__all__ = ["network"]

OTHER_VERSION = "1.2.3-other"


@pytest.fixture(scope="session")
def runtime_folder(tmp_path_factory) -> Path:
    """A folder 'dist' of another version of the package, whose files are not compared."""
    folder = tmp_path_factory.mktemp("package") / "dist"
    folder.mkdir()
    (folder / SCRIPT).write_text(f"/*! ONNX Runtime Web v{OTHER_VERSION} */")
    (folder / GLUE).write_text("export default 1;")
    (folder / WASM).write_bytes(b"\0asm")
    return folder
