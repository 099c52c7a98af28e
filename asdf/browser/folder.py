"""The folder of a page that scores recordings, written atomically, with digests of its files.

Invariant: the page makes requests only to its own address, and what it loads is verified with the
digests in it. It computes the same as `Detector.score_whole`; a network for which this is
impossible is refused before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from torch import nn

from asdf.audio.speech_check import trees_content
from asdf.browser.runtime import GLUE, WASM, Runtime
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.interchange import Graph, compared_graph
from asdf.runs.files import write_advice
from asdf.scoring.detector import Detector
from asdf.scoring.document import make_heading
from asdf.scoring.made_by import network_digest
from asdf.scoring.parts import PartSearch, part_window
from asdf.scoring.usual_audio import check_usual
from asdf.version import VERSION

GRAPH = "network.onnx"
SUMS = "SHA256SUMS"
README = "README.txt"
# The browser applies this to all of the page's scripts, and to the worker, which starts as part of
# the page: no other address, no inline script, no frame, no form.
POLICY = (
    "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval'; worker-src blob:; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; media-src blob:; form-action 'none'; "
    "base-uri 'none'"
)
_REPORT = ("style.css", "dom.js", "theme.js")
# `local` replaces the script that sends recordings to a service.
_SERVICE_SCRIPTS = ("axes", "words", "microphone", "playing", "picture", "result", "list")
_LOCAL_SCRIPTS = ("resample", "wav", "headers", "local")
_SCRIPTS = ("dom", "theme", *_SERVICE_SCRIPTS, *_LOCAL_SCRIPTS, "service")
_SERVICE = (
    *("service.css", "icon.svg", "recorder.js", "service.js"),
    *(f"{name}.js" for name in _SERVICE_SCRIPTS),
)
_LOCAL = (
    "local.css",
    "windows.js",
    "speech.js",
    "engine.js",
    *(f"{name}.js" for name in _LOCAL_SCRIPTS),
)
# The fields of a calibration that map scores.
_MAP = (
    *("scale", "offset", "lowest_llr", "highest_llr", "map_scores", "map_llrs"),
    *("replicates", "bona_fide", "spoof"),
)
# Precision of replicates, of which there are hundreds: more than percentiles of an interval need.
_DIGITS = 6
# The whole recording is in the browser's memory: one of this length needs about 2 GB while a stereo
# file at 48 kHz is decoded.
_MAX_SECONDS = 3600
_MAX_MB = 1000


@dataclass(frozen=True)
class Written:
    """A written folder of a page.

    Attributes:
        bytes: Size of all files, in bytes.
        graph_bytes: Size of the network's graph, in bytes.
        words: Sentences on the graph's input and the comparison.
    """

    bytes: int
    graph_bytes: int
    words: str


def write_browser_folder(
    folder: Path,
    network: nn.Module,
    detector: Detector,
    runtime: Runtime,
    int8: bool = False,
) -> Written:
    """Write the page of a network, which is also open as `detector`.

    Args:
        folder: Folder to create.
        int8: Whether to quantise the weights of large linear layers.

    Raises:
        UsageError: the page could not prepare recordings as the network requires.
        GraphError: the network cannot be exported, or its graph gives other results.
        AsdfError: the folder cannot be written.
    """
    # The page's scripts have no speech activity detection.
    check_usual(detector.settings.audio, "The page that computes in the browser")
    if detector.settings.sad.mode != "off":
        raise UsageError(
            "this network scores recordings without silence (sad.mode = "
            f"{detector.settings.sad.mode!r}), which the page cannot remove. Export a network "
            "trained with sad.mode = 'off', or use `python -m asdf serve`."
        )
    graph = compared_graph(network, None, int8)
    _check_lengths(graph, detector)
    contents = {f"runtime/{name}": content for name, content in runtime.files.items()}
    contents[GRAPH] = graph.content
    remarks = [detector.remark] if detector.remark else []
    if detector.calibration is not None and detector.calibration.home is not None:
        remarks.append(
            "this page does not check whether a recording is unlike the calibration set: `asdf "
            "score` and `asdf serve` do"
        )
    if int8:
        effect = graph.words.splitlines()[-1]
        remarks.append(f"large weights have 8 bits here, so scores differ from ASDF's: {effect}")
    about = _describe(detector, runtime, contents, "int8" if int8 else detector.precision)
    contents.update(_page_files(about, remarks))
    _write_whole(folder, contents)
    total = sum(map(len, contents.values()))
    return Written(total, len(graph.content), graph.words)


def _check_lengths(graph: Graph, detector: Detector) -> None:
    """Refuse a graph that does not support all lengths of scored recordings."""
    taken = {detector.length.min_samples, detector.length.max_samples}
    if graph.only is None or taken == {graph.only}:
        return
    raise UsageError(
        f"recordings of {detector.length.min_samples:,} to {detector.length.max_samples:,} samples "
        f"are scored whole by this network, but its graph takes {graph.only:,} samples only; "
        f"nothing was written. {graph.words}"
    )


def _rules(detector: Detector, search: PartSearch | None) -> dict[str, Any]:
    """Return the rules for verdicts from the network's output, as plain values."""
    rules: dict[str, Any] = {
        **detector.length.record(),
        "score": detector.settings.network.score,
        "threshold": detector.threshold,
        "calibration": None,
        "search": None,
        "speech_check": None,
    }
    if detector.speech_check == "built-in":
        rules["speech_check"] = trees_content()
    if search is not None:
        rules["search"] = {
            "window": search.window,
            "hop": search.hop,
            "threshold": search.threshold,
        }
    if detector.calibration is not None:
        content = detector.calibration.content()
        rules["calibration"] = {key: content[key] for key in _MAP if content.get(key) is not None}
        if "replicates" in content:
            rules["calibration"]["replicates"] = list(map(_shorten, content["replicates"]))
    return rules


def _shorten(row: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in row]


def _describe(
    detector: Detector,
    runtime: Runtime,
    contents: Mapping[str, bytes],
    precision: str,
) -> dict[str, Any]:
    """Return the page's data on the network, as plain values."""
    heading = make_heading(detector, Path(detector.source).name, are_trials=False)
    window = part_window(detector.length, detector.window_samples)
    paths = {"graph": GRAPH, "wasm": f"runtime/{WASM}", "glue": f"runtime/{GLUE}"}
    files: dict[str, dict[str, Any]] = {}
    for key, path in paths.items():
        digest = hashlib.sha256(contents[path]).hexdigest()
        files[key] = {"path": path, "bytes": len(contents[path]), "sha256": digest}
    return {
        "asdf": VERSION,
        "network": heading.network,
        "network_sha256": network_digest(detector.source),
        "kind": heading.kind,
        "threshold": heading.threshold,
        "decision": heading.decision,
        "scores": heading.scores,
        "calibration": heading.calibration,
        "precision": precision,
        "runtime": runtime.version,
        "rules": _rules(detector, heading.part_search),
        "part_search": None if heading.part_search is None else heading.part_search.entry(),
        "files": files,
        "window_s": window / SAMPLE_RATE,
        "max_mb": _MAX_MB,
        "max_seconds": _MAX_SECONDS,
        "limits": f"{_MAX_MB} MB and {_MAX_SECONDS // 60} minutes",
        "token": False,
    }


def _page_files(about: dict[str, Any], remarks: Sequence[str]) -> dict[str, bytes]:
    """Return the page, its scripts and styles, and the README of the folder."""
    contents = {}
    packages = {"asdf.report": _REPORT, "asdf.service": _SERVICE, "asdf.browser": _LOCAL}
    for package, names in packages.items():
        for name in names:
            contents[f"page/{name}"] = (files(package) / "page" / name).read_bytes()
    templates = Environment(
        loader=ChoiceLoader(
            [PackageLoader("asdf.browser", "page"), PackageLoader("asdf.service", "page")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = templates.get_template("local.html").render(
        about=about,
        # Within a script element, no '<' may begin a tag.
        data=json.dumps(about).replace("<", "\\u003c"),
        scripts=_SCRIPTS,
        policy=POLICY,
        remarks=[remark[0].upper() + remark[1:].rstrip(".") for remark in remarks],
        is_exact=about["precision"] == "fp32",
    )
    contents["index.html"] = page.encode()
    readme = templates.get_template("readme.txt").render(about=about, policy=POLICY, sums=SUMS)
    contents[README] = readme.encode()
    return contents


def _write_whole(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files next to `folder`, then rename."""
    # In the format of `sha256sum`.
    lines = [f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents)]
    try:
        folder = folder.resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(
            tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part")
        )
        try:
            # A subfolder, because mkdtemp's folder is readable only by this user.
            new = workshop / folder.name
            for name, content in {**contents, SUMS: "".join(lines).encode()}.items():
                path = new / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            new.rename(folder)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    except OSError as error:
        raise AsdfError(write_advice(folder, error)) from error
