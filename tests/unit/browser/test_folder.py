"""The folder of the page: whole, with digests, closed to other addresses; what it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import asdf
from asdf.__main__ import main
from asdf.browser import find_runtime, write_browser_folder
from asdf.browser import folder as folder_module
from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError, UsageError
from asdf.interchange import Graph, read_detector
from asdf.metrics.calibration import Calibration
from asdf.runs.files import sha256_of
from asdf.service.page_files import SCRIPTS
from tests.unit.browser.conftest import OTHER_VERSION
from tests.unit.conftest import sound, write_small_network
from tests.unit.service.conftest import TESTS

pytest.importorskip("onnx", reason="onnx is not installed")

CALIBRATION = Calibration(scale=2.0, offset=-0.5, threshold=0.25)


@pytest.fixture(scope="module")
def calibrated(network, tmp_path_factory) -> Path:
    """The small network with a calibration, whose name has what HTML gives a meaning."""
    file = read_network_file(network)
    path = tmp_path_factory.mktemp("calibrated") / "<b>plain.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS))
        settings = file.to_sections(folder=TESTS)
        return write_small_network(path, settings, calibration=CALIBRATION.content())


@pytest.fixture(scope="module")
def detector(calibrated) -> asdf.Detector:
    return asdf.Detector(calibrated, "cpu", network_folder=TESTS, threads=1)


@pytest.fixture(scope="module")
def page(calibrated, detector, runtime_folder, tmp_path_factory) -> Path:
    """A folder that was written."""
    network, _ = read_detector(calibrated, TESTS, None)
    folder = tmp_path_factory.mktemp("pages") / "a" / "page"
    write_browser_folder(folder, network, detector, find_runtime(runtime_folder))
    return folder


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._is_data = ("id", "data") in attrs

    def handle_endtag(self, tag):
        self._is_data = False

    def handle_data(self, data):
        if self._is_data:
            self.data += data


@pytest.fixture(scope="module")
def elements(page) -> Elements:
    return Elements((page / "index.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def about(elements) -> dict:
    return json.loads(elements.data)


def test_every_file_is_there_and_has_its_digest(page):
    lines = (page / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(line.split("  ", 1)) for line in lines)
    present = {path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file()}
    assert set(sums) == present - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((page / name).read_bytes()).hexdigest() == digest
    # Nothing half-made stays next to it, and others may read it.
    assert list(page.parent.iterdir()) == [page]
    assert page.stat().st_mode & 0o055 == 0o055 & ~_umask()


def _umask() -> int:
    import os

    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_all_that_the_page_names_is_in_the_folder(page, elements):
    named = {value for _, attributes in elements.found for value in _addresses(attributes)}
    assert "page/local.js" in named and "page/service.js" in named
    for address in named:
        assert (page / address.partition("#")[0]).is_file(), address
    texts = [path.read_text() for path in (page / "page").glob("*.js")]
    for address in re.findall(r"'((?:page|runtime)/[\w.-]+)'", "\n".join(texts)):
        assert (page / address).is_file(), address


def _addresses(attributes):
    for name in ("href", "src", "action", "data"):
        address = attributes.get(name)
        if address and not address.startswith("#"):
            yield address


def test_the_policy_comes_before_anything_is_loaded(elements):
    first = next(i for i, (tag, _) in enumerate(elements.found) if tag in ("script", "link"))
    [(at, policy)] = [
        (i, attributes["content"])
        for i, (_, attributes) in enumerate(elements.found)
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert at < first
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == rules["style-src"] == rules["img-src"] == "'self'"
    assert rules["form-action"] == rules["base-uri"] == "'none'"
    # Neither a scheme nor a host: 'unsafe-inline' and 'unsafe-eval' neither.
    sources = {word for rule in rules.values() for word in rule.split()}
    assert sources <= {"'none'", "'self'", "blob:", "'wasm-unsafe-eval'"}
    inline = [
        tag
        for tag, attributes in elements.found
        if tag == "style" or (tag == "script" and "src" not in attributes)
    ]
    # The data alone, which is no script.
    assert inline == ["script"]
    assert not any("style" in attributes for _, attributes in elements.found)


def test_no_file_of_ours_has_another_address(page):
    ours = [page / "index.html", page / "README.txt", *(page / "page").iterdir()]
    for path in ours:
        text = path.read_text(encoding="utf-8")
        addresses = set(re.findall(r"\b(?:https?|wss?):(?://)?[^\s'\"`)<]*", text))
        # The name of a language, and this same machine.
        allowed = {"http://www.w3.org/2000/svg"}
        assert {a for a in addresses - allowed if "127.0.0.1" not in a} == set(), path.name


def test_it_has_the_scripts_of_the_service(page, elements):
    scripts = [a["src"] for tag, a in elements.found if tag == "script" and "src" in a]
    names = [Path(source).stem for source in scripts]
    # Nothing is sent to a service, nor asked of it.
    assert set(SCRIPTS) - {"upload", "asking"} <= set(names)
    # What is defined in one and used when another is read comes first.
    assert names.index("local") < names.index("service") == len(names) - 1


def test_it_knows_the_rules_of_the_detector(about, detector, calibrated, page):
    assert about["network"] == "<b>plain.pt"
    assert about["network_sha256"] == sha256_of(calibrated)
    rules = about["rules"]
    assert (rules["min_samples"], rules["max_samples"]) == (4000, 16000)
    assert rules["score"] == "bona_fide"
    assert rules["calibration"] == {"scale": 2.0, "offset": -0.5}
    assert rules["search"] == {"window": 16000, "hop": 8000, "threshold": 0.25}
    assert about["part_search"]["threshold"] == 0.25
    assert rules["threshold"] == about["threshold"] == detector.threshold == 0.25
    assert about["kind"] == "llr" and about["runtime"] == OTHER_VERSION
    assert about["window_s"] == 1.0
    for file in about["files"].values():
        assert file["sha256"] == sha256_of(page / file["path"])
        assert file["bytes"] == (page / file["path"]).stat().st_size


def test_the_graph_gives_the_raw_scores_of_the_detector(page, detector):
    session = onnxruntime.InferenceSession(page / "network.onnx")
    waveform = sound(12000, 3).astype(np.float32)
    (logits,) = session.run(["logits"], {"waveforms": waveform[None]})
    assert logits[0, 1] == pytest.approx(detector.score_whole(waveform, 16000).raw, abs=1e-5)


def test_text_of_the_network_is_no_html(page):
    text = (page / "index.html").read_text()
    assert "<b>plain" not in text and "&lt;b&gt;plain.pt" in text


def test_the_licence_is_in_the_folder(page, elements):
    assert "Permission is hereby granted" in (page / "runtime" / "LICENSE").read_text()
    assert any(attributes.get("href") == "runtime/LICENSE" for _, attributes in elements.found)
    notices = (page / "runtime" / "ThirdPartyNotices.txt").read_text()
    assert "licen" in notices.lower()


def test_a_network_that_hears_no_silence_is_refused(detector, tmp_path):
    settings = replace(detector.settings, sad=replace(detector.settings.sad, mode="on"))
    other = asdf.Detector.__new__(asdf.Detector)
    other.settings = settings
    with pytest.raises(UsageError, match=r"sad\.mode = 'on'.*serve"):
        write_browser_folder(tmp_path / "page", None, other, None)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_of_one_length_is_for_networks_of_one_length(detector):
    graph = Graph(b"", (16000,), "of one length: a reason", 16000)
    with pytest.raises(UsageError, match=r"4,000 to 16,000 samples.*takes 16,000 samples only"):
        folder_module._check_lengths(graph, detector)
    other = asdf.Detector.__new__(asdf.Detector)
    other.length = replace(detector.length, min_samples=16000)
    folder_module._check_lengths(graph, other)


def test_what_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AsdfError, match="file"):
        folder_module._write_whole(tmp_path / "file" / "page", {"a": b""})


def test_the_command_says_what_was_written_and_how_to_use_it(
    calibrated, runtime_folder, tmp_path, capsys
):
    command = ["export", calibrated, "--format", "web", tmp_path / "page"]
    command += ["--runtime", runtime_folder.parent, "--network-folder", TESTS]
    assert main(list(map(str, command))) == 0
    said = capsys.readouterr().err + capsys.readouterr().out
    assert (tmp_path / "page" / "index.html").is_file()
    # Again, of the page that was written.
    command[4], command[6] = tmp_path / "again", tmp_path / "page"
    assert main(list(map(str, command))) == 0
    said += "".join(capsys.readouterr())
    assert f"onnxruntime-web {OTHER_VERSION}, with which ASDF was not tested" in said
    assert f"--directory {tmp_path / 'again'}" in said
    # What exists stays.
    assert main(list(map(str, command))) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "onnx", "--runtime", "x"], "--runtime applies to web"),
        (["--format", "web", "--samples", "64600"], "--samples applies to"),
        (["--format", "web", "--runtime", "missing"], "cannot read ort.wasm.min.js"),
    ],
)
def test_options_that_mean_nothing_are_refused(words, message, calibrated, tmp_path, capsys):
    command = ["export", calibrated, *words, "--network-folder", TESTS, tmp_path / "out"]
    assert main(list(map(str, command))) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
