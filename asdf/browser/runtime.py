"""ONNX Runtime Web: the files of the npm package that run a graph in a browser.

Invariant: the files in a page's folder are bit by bit those of the package that this version of
ASDF was tested with, or those that the user provides, whose version is then stated. No code of the
package is executed here, neither by npm nor by Python.

Source: https://onnxruntime.ai/docs/get-started/with-javascript/web.html
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from asdf.errors import AsdfError, UsageError

PACKAGE = "onnxruntime-web"
VERSION = "1.30.0"
"""Version of the package that is downloaded and tested."""

INTEGRITY = (
    "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJm"
    "g8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
)
"""SHA-512 of the package's archive, in the format of package managers."""

SCRIPT = "ort.wasm.min.js"
GLUE = "ort-wasm-simd-threaded.mjs"
WASM = "ort-wasm-simd-threaded.wasm"
_DIGESTS = {
    SCRIPT: "faece07e84faa9001f5104bbe4e5c70861d06cb2376a0dea1fa0ad33a67adc81",
    GLUE: "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    WASM: "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
_VERSION_LINE = re.compile(rb"ONNX Runtime Web v([\w.+-]+)")
# The archive has 33 MB: a slow connection takes minutes, but an unresponsive one should not hang.
_NPM_S = 900
_ADVICE = (
    f"On a machine with npm and internet access, `npm pack {PACKAGE}@{VERSION}` and `tar xzf` of "
    "the resulting file give a folder package/dist; copy it here and name it: --runtime FOLDER. "
    "The folder 'runtime' of an exported page works as well."
)
# The package contains only the name of its licence.
_LICENCE = """\
ONNX Runtime Web: MIT License

Copyright (c) Microsoft Corporation

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
_NOTICES = "ThirdPartyNotices.txt"


@dataclass(frozen=True)
class Runtime:
    """The files of ONNX Runtime Web that a page needs.

    Attributes:
        version: Version of the package.
        files: Contents by name, licence included.
    """

    version: str
    files: Mapping[str, bytes]

    @property
    def is_tested(self) -> bool:
        """Whether it is the version that ASDF was tested with."""
        return self.version == VERSION


def find_runtime(folder: Path | None) -> Runtime:
    """Return the files of `folder`, or of the package downloaded by npm.

    Args:
        folder: Folder 'dist' of the package, or its parent; None: npm downloads the package.

    Raises:
        UsageError: the folder lacks a file, or its files do not match their version; or npm is
            missing.
        AsdfError: npm cannot download the package, or downloaded something else.
    """
    if folder is not None:
        # The files are in the folder itself, or in a subfolder of a package or a page.
        folders = (folder, folder / "dist", folder / "runtime")
        folder = next((inner for inner in folders if (inner / SCRIPT).is_file()), folder)
    files = _fetch_files() if folder is None else _read_files(folder)
    match = _VERSION_LINE.search(files[SCRIPT][:1000])
    version = match.group(1).decode() if match else "of unknown version"
    if version == VERSION:
        for name, content in files.items():
            if hashlib.sha256(content).hexdigest() != _DIGESTS[name]:
                raise UsageError(
                    f"{folder or PACKAGE}: {name} is not that of {PACKAGE} {VERSION}: its SHA-256 "
                    f"differs. It was changed or damaged, or belongs to another version. {_ADVICE}"
                )
    licences = {"LICENSE": _LICENCE.encode(), **_notices_of(folder)}
    return Runtime(version, {**files, **licences})


def _read_files(folder: Path) -> dict[str, bytes]:
    files = {}
    for name in _DIGESTS:
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise UsageError(
                f"--runtime {folder}: cannot read {name}: {error.strerror or error}. {_ADVICE}"
            ) from None
    return files


def _fetch_files() -> dict[str, bytes]:
    """Let npm download the package into a temporary folder; return its files.

    Raises:
        UsageError: npm is missing.
        AsdfError: it fails, or the downloaded package has another digest than the recorded one.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(
            f"--format web needs the files of {PACKAGE} {VERSION}, which npm downloads, but npm is "
            f"not installed. {_ADVICE}"
        )
    with TemporaryDirectory() as folder:
        # Packing a package by name runs none of its scripts; the option makes this explicit.
        command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--ignore-scripts", "--silent"]
        try:
            done = subprocess.run(
                [*command, "--pack-destination", folder],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_NPM_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AsdfError(f"npm cannot download {PACKAGE}: {error}. {_ADVICE}") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            lines = done.stderr.strip().splitlines()
            reason = lines[-1] if lines else f"it exited with status {done.returncode}"
            raise AsdfError(f"npm cannot download {PACKAGE} {VERSION}: {reason}. {_ADVICE}")
        digest = hashlib.sha512(archives[0].read_bytes()).digest()
        if f"sha512-{base64.b64encode(digest).decode()}" != INTEGRITY:
            raise AsdfError(
                f"what npm downloaded is not {PACKAGE} {VERSION}: its SHA-512 is not the recorded "
                f"one, {INTEGRITY}. Nothing was written. Check which registry npm uses (`npm "
                f"config get registry`). {_ADVICE}"
            )
        return _unpack(archives[0])


def _unpack(archive: Path) -> dict[str, bytes]:
    files = {}
    with tarfile.open(archive) as tar:
        for name in _DIGESTS:
            member = tar.extractfile(f"package/dist/{name}")
            assert member is not None  # its digest is known
            files[name] = member.read()
    return files


def _notices_of(folder: Path | None) -> dict[str, bytes]:
    """Return the licences of third-party code in the runtime, if available."""
    # The npm package has none; the Python package is built from the same source.
    homes = [] if folder is None else [folder]
    found = find_spec("onnxruntime")
    if found is not None and found.origin is not None:
        homes.append(Path(found.origin).parent)
    for home in homes:
        if (home / _NOTICES).is_file():
            return {_NOTICES: (home / _NOTICES).read_bytes()}
    return {}
