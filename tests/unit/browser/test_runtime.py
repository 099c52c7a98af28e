"""ONNX Runtime Web: of a folder, of npm; what is not the package that was tested is refused."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest

from asdf.browser import find_runtime, runtime
from asdf.browser.runtime import GLUE, SCRIPT, VERSION, WASM
from asdf.errors import AsdfError, UsageError
from tests.unit.browser.conftest import OTHER_VERSION


def test_a_folder_is_the_package_its_dist_or_an_exported_page(runtime_folder, tmp_path):
    shutil.copytree(runtime_folder, tmp_path / "page" / "runtime")
    for folder in (runtime_folder, runtime_folder.parent, tmp_path / "page"):
        found = find_runtime(folder)
        assert found.version == OTHER_VERSION and not found.is_tested
        assert {SCRIPT, GLUE, WASM, "LICENSE"} <= set(found.files)
        assert found.files[WASM] == b"\0asm"


def test_files_of_the_tested_version_are_compared(runtime_folder, tmp_path):
    folder = tmp_path / "dist"
    shutil.copytree(runtime_folder, folder)
    (folder / SCRIPT).write_text(f"/*!\n * ONNX Runtime Web v{VERSION}\n */")
    with pytest.raises(UsageError, match=f"{SCRIPT} is not that of onnxruntime-web {VERSION}"):
        find_runtime(folder)


def test_without_npm_one_message_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as refusal:
        find_runtime(None)
    message = str(refusal.value)
    assert f"npm pack onnxruntime-web@{VERSION}" in message and "--runtime FOLDER" in message


@pytest.fixture
def npm(monkeypatch, tmp_path):
    """Put a program named npm first, which runs `lines` of the shell in the archive's folder."""

    def npm(lines: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "npm"
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return npm


def pack(runtime_folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(runtime_folder, "package/dist")
    return archive


def test_npm_is_asked_for_the_version_and_runs_nothing_of_it(npm, tmp_path):
    npm(f'echo "$@" > {tmp_path}/asked; echo "npm error 404 not found" >&2; exit 1')
    with pytest.raises(AsdfError, match="404 not found"):
        find_runtime(None)
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["pack", f"onnxruntime-web@{VERSION}"]
    assert "--ignore-scripts" in asked
    # Its archive was to come to a folder of its own, which is gone.
    assert not Path(asked[-1]).exists()


def test_an_archive_of_other_bytes_is_refused(npm, runtime_folder, tmp_path):
    archive = pack(runtime_folder, tmp_path / "x.tgz")
    npm(f'cp {archive} "$PWD/x.tgz"')
    with pytest.raises(AsdfError, match="its SHA-512 is not the recorded one"):
        find_runtime(None)


def test_an_archive_of_the_recorded_digest_is_unpacked(npm, runtime_folder, tmp_path, monkeypatch):
    import base64
    import hashlib

    archive = pack(runtime_folder, tmp_path / "x.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    monkeypatch.setattr(runtime, "INTEGRITY", f"sha512-{digest}")
    npm(f'cp {archive} "$PWD/x.tgz"')
    assert find_runtime(None).files[GLUE] == b"export default 1;"
