"""The page that computes by itself, in a real browser: its scores, what it asks for, its mistakes.

The files of onnxruntime-web are never fetched by a test: the variable ASDF_ONNXRUNTIME_WEB names a
folder that has them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.metrics.calibration import Calibration
from asdf.networks import build_network
from asdf.runs.files import sha256_of
from tests.conftest import PATIENCE_S
from tests.scripts.chromium import needs_chromium, start_browser, wait_for_drawing
from tests.unit.conftest import small_settings, sound

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

RUNTIME = os.environ.get("ASDF_ONNXRUNTIME_WEB", "")
pytestmark = [
    pytest.mark.slow,
    needs_chromium,
    pytest.mark.skipif(
        not RUNTIME, reason="ASDF_ONNXRUNTIME_WEB names no folder of onnxruntime-web"
    ),
]

WINDOW = 16000
# What a score may differ by, of ASDF's.
EXACT = 1e-4
CALIBRATION = Calibration(
    scale=3.0,
    offset=0.4,
    threshold=0.0,
    bona_fide=120,
    spoof=1200,
    lowest_llr=-4.0,
    highest_llr=3.0,
    replicates=tuple((2.8 + 0.02 * index, 0.6 - 0.01 * index) for index in range(40)),
)
ISOLATING = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
MAX_THREADS = 8


class Handler(SimpleHTTPRequestHandler):
    """Static files, as `python -m http.server` serves them, with headers and a list of paths."""

    def __init__(self, *args, headers, asked, **options):
        self.further = headers
        self.asked = asked
        super().__init__(*args, **options)

    def end_headers(self):
        for name, value in self.further.items():
            self.send_header(name, value)
        super().end_headers()

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


class Site:
    """A folder that is served.

    Attributes:
        url: Address of its page.
        asked: Paths that were asked for.
    """

    def __init__(self, folder: Path, headers: dict[str, str]) -> None:
        self.asked: list[str] = []
        handler = partial(Handler, directory=folder, headers=headers, asked=self.asked)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(folder: Path, headers: dict[str, str] | None = None) -> Iterator[Site]:
    site = Site(folder, headers or {})
    try:
        yield site
    finally:
        site.close()


def make_network(folder: Path, kind: str) -> Path:
    """Write a network whose windows have a second; its scores differ between recordings."""
    settings = small_settings(
        min_evaluation_utterance_length_in_samples=WINDOW,
        max_evaluation_utterance_length_in_samples=WINDOW,
    )
    if kind == "lfcc":
        settings.network.network_class = "asdf.networks.SSL_LCNN"
        settings.front_end.front_end_class = "lfcc"
        settings.back_end.lcnn_projection = 32
        settings.network.score = "difference"
        # Shorter recordings are heard as they are.
        settings.network.min_evaluation_utterance_length_in_samples = 6000
    if kind == "base":
        settings.network.network_class = "asdf.networks.SSL_AASIST"
        settings.front_end.architecture = "wav2vec2_base"
    torch.manual_seed(0)
    network = build_network(settings)
    make_sensitive(network, kind)
    file = NetworkFile.from_network(network, settings, calibration=CALIBRATION.content())
    path = folder / f"{kind}.pt"
    write_network_file(path, file)
    return path


def make_sensitive(network: torch.nn.Module, kind: str) -> None:
    """Let batch norms know what comes, and spread scores: random numbers hear no differences."""
    waveforms = np.stack([sound(WINDOW, seed) for seed in range(4)]).astype(np.float32)
    waveforms[2:] = 0.1 * np.random.default_rng(0).normal(size=(2, WINDOW))
    network.train()
    with torch.no_grad():
        for _ in range(20):
            network(torch.from_numpy(waveforms))
        network.eval()
        if kind != "aasist_l":
            # Their scores differ by themselves.
            return
        logits = network(torch.from_numpy(waveforms))[1]
        (output,) = (m for m in network.modules() if getattr(m, "out_features", 0) == 2)
        output.weight.div_(logits[:, 1].std())


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Export a network once, by its kind: the page's folder, and the detector."""
    made: dict[str, tuple[Path, asdf.Detector]] = {}

    def export(kind: str) -> tuple[Path, asdf.Detector]:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            network = make_network(folder, kind)
            command = ["export", network, "--format", "web", folder / "page", "--runtime", RUNTIME]
            assert main(list(map(str, command))) == 0
            made[kind] = folder / "page", asdf.Detector(network, "cpu")
        return made[kind]

    return export


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = start_browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, corpus) -> list[Path]:
    """Speech, tones and noise, of several rates, channels, codings and lengths."""
    folder = tmp_path_factory.mktemp("recordings")
    rng = np.random.default_rng(0)

    def write(name, samples, rate, subtype=None):
        soundfile.write(folder / name, samples, rate, subtype)

    def tone(rate, seconds, hz):
        return 0.3 * np.sin(2 * np.pi * hz * np.arange(round(rate * seconds)) / rate)

    stereo = np.stack([sound(110000, 1), tone(44100, 110000 / 44100, 700)], 1)
    write("walk 16 kHz.wav", sound(40000), 16000)
    write("short 8 kHz.wav", sound(5600, 2), 8000)
    write("tone 8 kHz a-law.wav", tone(8000, 3, 440), 8000, "ALAW")
    write("stereo 44.1 kHz.wav", stereo, 44100)
    write("stereo 44.1 kHz.flac", stereo, 44100)
    write("noise 48 kHz 24 bits.flac", rng.normal(0, 0.1, 150000), 48000, "PCM_24")
    write("noise 11.025 kHz float.wav", rng.normal(0, 0.1, 30000), 11025, "FLOAT")
    write("silence.wav", np.zeros(20000), 16000)
    half = np.concatenate([sound(WINDOW, 4), np.zeros(WINDOW), sound(WINDOW, 5)])
    write("silent window.wav", half, 16000)
    speech = sorted(Path(corpus).rglob("*.flac"))[:3]
    return [*sorted(folder.iterdir()), *speech]


def open_page(browser, url):
    browser.get_log("browser")
    browser.get(url)
    wait_for_drawing(browser)


def find(browser, name):
    return browser.find_element(By.ID, name)


def choose(browser, paths):
    find(browser, "file").send_keys("\n".join(map(str, paths)))


def wait_until(browser, is_so):
    WebDriverWait(browser, PATIENCE_S).until(is_so)


def answers(browser, paths) -> list[dict]:
    """Choose files, and return what came of each: the answer, or the words of its failure."""
    choose(browser, paths)
    finished = (
        "return recordings.length > 0 "
        "&& recordings.every(({ state }) => state in { done: 1, failed: 1 })"
    )
    wait_until(browser, lambda b: b.execute_script(finished))
    return browser.execute_script(
        "return recordings.map(({ answer, words }) => answer || { words })"
    )


def check_scores(browser, folder, detector, recordings, headers=None):
    """Score recordings on the page, and compare all of the results with the detector's."""
    with serving(folder, headers) as site:
        open_page(browser, site.url)
        results = answers(browser, recordings)
        assert [entry["message"] for entry in browser.get_log("browser")] == []
    scores = []
    for path, answer in zip(recordings, results, strict=True):
        assert "recordings" in answer, (path.name, answer)
        [result] = answer["recordings"]
        expected = detector.score_whole(path)
        scores.append(expected.score)
        assert result["score"] == pytest.approx(expected.score, abs=EXACT), path.name
        assert result["raw"] == pytest.approx(expected.raw, abs=EXACT)
        assert result["verdict"] == expected.verdict
        assert result["seconds"] == expected.seconds
        assert result["seconds_scored"] == expected.seconds_scored
        assert result.get("remark", "") == expected.remark
        assert result["sha256"] == sha256_of(path)
        lowest = None if expected.lowest is None else expected.lowest.entry()
        assert result.get("lowest") == pytest.approx(lowest, abs=EXACT)
        entry = expected.entry()
        for key in ("llr", "log10_llr", "llr_interval"):
            assert result[key] == pytest.approx(entry[key], abs=EXACT), (path.name, key)
        assert result.get("llr_words", "") == entry.get("llr_words", "")
        assert ("unbounded_llr" in result) == ("unbounded_llr" in entry)
        assert result.get("searched") == entry.get("searched"), path.name
        for part, expected_part in zip(result.get("parts", []), expected.parts, strict=True):
            assert part == pytest.approx(expected_part.entry(), abs=EXACT)
        window = detector.window_samples / 16000
        over_time = detector.score_over_time(path, window, window / 2)
        assert len(result["windows"]) == len(over_time)
        for shown, entry in zip(result["windows"], over_time, strict=True):
            assert shown == pytest.approx(entry.entry(), abs=EXACT)
    return scores, results


@pytest.mark.parametrize("kind", ["aasist_l", "lfcc"])
def test_scores_are_those_of_the_detector(kind, browser, export, recordings):
    folder, detector = export(kind)
    scores, _ = check_scores(browser, folder, detector, recordings)
    # Scores that hardly differ would be equal whatever the page did.
    assert np.ptp(scores) > 1000 * EXACT


def test_scores_of_a_wav2vec_of_base_size(browser, export, recordings):
    folder, detector = export("base")
    assert (folder / "network.onnx").stat().st_size > 350e6
    chosen = [path for path in recordings if "44.1" in path.name or "short" in path.name]
    scores, _ = check_scores(browser, folder, detector, chosen)
    assert np.ptp(scores) > 1000 * EXACT


def test_with_two_headers_it_computes_on_several_cores(browser, export, recordings):
    folder, detector = export("aasist_l")
    _, results = check_scores(browser, folder, detector, recordings[-2:], ISOLATING)
    assert browser.execute_script("return crossOriginIsolated")
    cores = browser.execute_script("return navigator.hardwareConcurrency")
    [threads] = {answer["made_by"]["options"]["threads"] for answer in results}
    assert threads == min(cores, MAX_THREADS)


def test_a_result_is_shown_and_saved_with_what_made_it(browser, export, recordings):
    folder, detector = export("aasist_l")
    path = recordings[-1]
    with serving(folder) as site:
        open_page(browser, site.url)
        assert "network" in find(browser, "cost").text
        [answer] = answers(browser, [path])
        wait_until(browser, lambda b: find(b, "result").is_displayed())
        wait_for_drawing(browser)
        expected = detector.score_whole(path)
        word = {"spoof": "spoofed", "bona fide": "genuine", "mixed": "spoofed"}[expected.verdict]
        assert word in find(browser, "verdict").text
        shown = find(browser, "numbers").text
        assert f"{expected.score:.4f}" in shown
        assert "Interval at 95 %" in shown and CALIBRATION.describe_origin() in shown
        assert sha256_of(path) in shown and sha256_of(folder / "network.onnx") in shown
        assert re.search(r"Measured here: [\d.]+ s per minute .* MB of memory", cost(browser))
        assert len(browser.find_elements(By.CSS_SELECTOR, "#picture svg")) == 2
        saved = json.loads(browser.execute_script("return asJson()"))[0]
        assert "undefined" not in browser.execute_script("return asCsv()")
    made = saved["made_by"]
    network = folder.parent / "aasist_l.pt"
    assert made["network_sha256"] == sha256_of(network)
    assert made["graph_sha256"] == sha256_of(folder / "network.onnx")
    assert made["asdf"] == asdf.__version__ and "Chrom" in made["browser"]
    assert made["options"]["max_samples"] == WINDOW
    assert saved["kind"] == "llr" and saved["threshold"] == detector.threshold
    assert saved["recordings"] == answer["recordings"]
    assert not browser.get_log("browser")


def cost(browser) -> str:
    return find(browser, "cost").text


def test_nothing_leaves_the_machine(tmp_path, export, recordings):
    """By Chromium's own log of the network, of all of its processes and workers."""
    folder, _ = export("aasist_l")
    log = tmp_path / "net.json"
    browser = start_browser(tmp_path / "chromium", f"--log-net-log={log}")
    (tmp_path / "elsewhere").mkdir()
    with serving(folder) as site, serving(tmp_path / "elsewhere") as elsewhere:
        try:
            open_page(browser, site.url)
            answers(browser, recordings[:2])
            tried = try_to_leave(browser, elsewhere.url)
        finally:
            browser.quit()
        # What the page and a worker of its kind may not do, and may.
        assert tried == {"page": "refused", "worker": "refused", "own": "allowed"}
        assert elsewhere.asked == []
        asked = {path.partition("?")[0] for path in site.asked}
    present = {f"/{path.relative_to(folder)}" for path in folder.rglob("*")}
    assert asked <= present | {"/"} and "/network.onnx" in asked
    # What the browser asks for by itself, as for updates, is of no page.
    requested = requests_of(log, site.url.rstrip("/"))
    assert f"{site.url}network.onnx" in requested
    assert {url for url in requested if not url.startswith((site.url, "blob:"))} == set()


def requests_of(log: Path, origin: str) -> set[str]:
    """Return the addresses in a log of Chromium that pages and workers of `origin` asked for."""
    addresses = set()
    for line in log.read_text().splitlines():
        if f'"initiator":"{origin}"' in line:
            addresses.update(re.findall(r'"url":"([^"]+)"', line))
    return addresses


def try_to_leave(browser, address):
    """Ask another address from the page and from a worker that starts as the page's own does."""
    return browser.execute_async_script(
        """
        const [address, done] = arguments;
        const attempt = (url) =>
          fetch(url, { mode: 'no-cors' }).then(() => 'allowed', () => 'refused');
        const code =
          `onmessage = ({ data }) => (${attempt})(data).then((word) => postMessage(word));`;
        const inWorker = (url) => new Promise((resolve) => {
          const worker = new Worker(URL.createObjectURL(new Blob([code])));
          worker.onmessage = ({ data }) => resolve(data);
          worker.postMessage(url);
        });
        const own = new URL('README.txt', document.baseURI).href;
        Promise.all([attempt(address), inWorker(address), inWorker(own)])
          .then(([page, worker, own]) => done({ page, worker, own }));
        """,
        address,
    )


def test_opened_as_a_file_it_says_what_to_do(browser, export):
    folder, _ = export("aasist_l")
    browser.get((folder / "index.html").as_uri())
    wait_for_drawing(browser)
    assert "python3 -m http.server" in find(browser, "serve-first").text
    assert not find(browser, "input").is_displayed()
    # Served, it does not.
    with serving(folder) as site:
        open_page(browser, site.url)
        assert not find(browser, "serve-first").is_displayed()
        assert find(browser, "input").is_displayed()


def test_mistakes_are_shown_in_words(browser, export, recordings, tmp_path):
    folder, _ = export("aasist_l")
    cut = tmp_path / "cut.wav"
    wav = next(path for path in recordings if path.name == "walk 16 kHz.wav")
    cut.write_bytes(wav.read_bytes()[:20000])
    letter = tmp_path / "letter.mp3"
    letter.write_bytes(b"Dear Sir or Madam" * 100)
    empty = tmp_path / "empty.wav"
    empty.write_bytes(b"")
    with serving(folder) as site:
        open_page(browser, site.url)
        failures = [each["words"] for each in answers(browser, [cut, letter, empty])]
        assert failures[0].startswith("cut.wav cannot be decoded to its end")
        assert failures[1].startswith("letter.mp3 cannot be decoded by this browser")
        assert failures[2] == "empty.wav is empty (0 bytes)."
        # And a good one afterwards is scored.
        assert "recordings" in answers(browser, [wav])[-1]


@pytest.mark.parametrize("damage", ["changed", "cut", "missing"])
def test_a_folder_that_is_not_whole_is_named(damage, browser, export, recordings, tmp_path):
    folder, _ = export("aasist_l")
    copy = tmp_path / "page"
    shutil.copytree(folder, copy)
    graph = copy / "network.onnx"
    content = graph.read_bytes()
    if damage == "changed":
        graph.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        graph.write_bytes(content[:1000])
    else:
        graph.unlink()
    expected = {
        "changed": "network.onnx is not the file that belongs to this page",
        "cut": "network.onnx came with 1000 of",
        "missing": "The server of this page has no network.onnx (status 404)",
    }
    with serving(copy) as site:
        open_page(browser, site.url)
        [failure] = answers(browser, recordings[:1])
        assert failure["words"].startswith(expected[damage])
        # Put right, the next recording begins anew.
        graph.write_bytes(content)
        assert "recordings" in answers(browser, recordings[:1])[-1]


def test_a_recording_is_cancelled_between_windows(browser, export, recordings, tmp_path):
    folder, _ = export("aasist_l")
    long = tmp_path / "long.wav"
    soundfile.write(long, sound(60 * 16000), 16000)
    with serving(folder) as site:
        open_page(browser, site.url)
        choose(browser, [long])
        wait_until(browser, lambda b: "window" in find(b, "status").text)
        assert find(browser, "bar").is_displayed()
        find(browser, "cancel").click()
        wait_until(browser, lambda b: find(b, "status").text == "Cancelled.")
        assert not find(browser, "bar").is_displayed()
        assert "recordings" in answers(browser, recordings[:1])[-1]


def test_on_a_phone_nothing_is_wider_than_the_screen(browser, export, recordings):
    folder, _ = export("aasist_l")
    size = {"width": 375, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        with serving(folder) as site:
            open_page(browser, site.url)
            answers(browser, recordings[:2])
            browser.execute_script("show(recordings[0])")
            wait_for_drawing(browser)
            width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 375
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
