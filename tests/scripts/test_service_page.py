"""The service's page in a real browser: files, the microphone, mistakes, the keyboard, a phone."""

import csv
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main as run_command
from asdf.interchange import read_network_file, write_network_file
from asdf.metrics.calibration import Calibration
from asdf.runs.files import sha256_of
from tests.conftest import PATIENCE_S, ROOT
from tests.extras.service.conftest import LIMITS, TESTS, network, running
from tests.extras.service.test_passes import Gate
from tests.scripts.chromium import every, needs_chromium, one, requested_addresses, wait_for_drawing
from tests.scripts.conftest import SPEECH
from tests.unit.conftest import sound
from tests.unit.shipped.test_shipped import voiced

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = needs_chromium
__all__ = ["network"]

TOKEN = "a token of sufficient length"
WINDOW_S = 1.0


@pytest.fixture(scope="module")
def detector(network, recording) -> asdf.Detector:
    """A detector whose threshold lies between the scores of the recording's windows."""
    windows = plain_detector(network).score_over_time(recording, WINDOW_S, WINDOW_S / 2)
    scores = [window.score for window in windows]
    return plain_detector(network, threshold=(min(scores) + max(scores)) / 2)


def plain_detector(network, **options) -> asdf.Detector:
    """A detector of the test's sounds, which are no speech."""
    options = {"threads": 1, "speech_check": "off", **options}
    return asdf.Detector(network, "cpu", network_folder=TESTS, **options)


@pytest.fixture(scope="module")
def served(detector):
    with running(detector) as service:
        yield service


@pytest.fixture
def opened(browser, served):
    """Load the page; whatever a test does to it, it logs no error and asks no other address."""
    yield from open_page(browser, served.url)


def open_page(browser, url):
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(f"{url}/")
    wait_for_drawing(browser)
    yield browser
    # What the service refuses is reported by the browser itself, and shown in words by the page.
    errors = [entry["message"] for entry in browser.get_log("browser")]
    assert [text for text in errors if f"{url}/score?" not in text] == []
    addresses = requested_addresses(browser, f"{url}/")
    assert all(address.startswith(f"{url}/") for address in addresses), addresses


def find(browser, name):
    return browser.find_element(By.ID, name)


def choose(browser, path):
    find(browser, "file").send_keys(str(path))


def wait_until(browser, is_so):
    WebDriverWait(browser, PATIENCE_S).until(is_so)


def wait_for_result(browser):
    wait_until(browser, lambda b: find(b, "result").is_displayed() or find(b, "error").text)
    assert find(browser, "error").text == ""
    wait_for_drawing(browser)


def numbers(browser) -> dict[str, str]:
    names = every(browser, "#numbers dt")
    values = every(browser, "#numbers dd")
    texts = [element.get_attribute("textContent") for element in (*names, *values)]
    return dict(zip(texts[: len(names)], texts[len(names) :], strict=True))


def spoofed_parts(detector, recording) -> list[tuple[float, float]]:
    """Neighbouring windows below the threshold, joined."""
    parts: list[tuple[float, float]] = []
    for window in detector.score_over_time(recording, WINDOW_S, WINDOW_S / 2):
        if window.score >= detector.threshold:
            continue
        if parts and window.start_s <= parts[-1][1]:
            parts[-1] = (parts[-1][0], window.end_s)
        else:
            parts.append((window.start_s, window.end_s))
    return parts


def test_a_file_gets_a_verdict_a_picture_and_its_parts(opened, detector, network, recording):
    choose(opened, recording)
    wait_for_result(opened)
    expected = detector.score_whole(recording)
    words = {
        "spoof": "sounds spoofed",
        "bona fide": "sounds genuine",
        "mixed": "Part of this sounds",
    }
    assert words[expected.verdict] in find(opened, "verdict").text
    assert opened.switch_to.active_element.get_attribute("id") == "verdict"
    assert "not proof in either direction" in find(opened, "result").text
    parts = spoofed_parts(detector, recording)
    assert parts
    buttons = [b.text for b in every(opened, "#parts button")]
    assert buttons == [f"Play 0:{start:04.1f} to 0:{end:04.1f}" for start, end in parts]
    wave, scores = every(opened, "#picture > svg")
    assert len(every(wave, ".sound")) == 1
    assert len(every(scores, ".threshold")) == 1
    for drawing in (wave, scores):
        assert len(every(drawing, ".part")) == len(parts)
    check_heights(opened, detector.score_over_time(recording, WINDOW_S, WINDOW_S / 2))
    # What it is of, and what made it; nothing of it is folded away.
    assert find(opened, "name").text == "two halves.wav (0:08)"
    assert opened.title == "two halves.wav: is this voice genuine?"
    assert f"ASDF {asdf.__version__}" in find(opened, "foot").text
    assert find(opened, "numbers").is_displayed()
    shown = numbers(opened)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", shown["Scored at"])
    assert (
        shown.items()
        >= {
            "Score": f"{expected.score:.4f}",
            "Seconds": f"{len(SPEECH) / 16000:.2f}",
            "Verdict": expected.verdict,
            "File": "two halves.wav",
            "SHA-256": sha256_of(recording),
            "SHA-256 of the network": sha256_of(network),
            "Network": "plain.pt",
            "Program": f"ASDF {asdf.__version__}, PyTorch {torch.__version__}",
        }.items()
    )
    # What a screen reader has: every control has a name, and the picture's says what is known.
    names = names_by_role(opened)
    assert {"button", "link"} <= set(names) and all(map(all, names.values())), names
    words = "1 part sounds spoofed" if len(parts) == 1 else f"{len(parts)} parts sound spoofed"
    assert [name for name in image_names(names) if name.endswith(f"; {words}")]
    for count, described in ((0, "no part sounds spoofed"), (2, "2 parts sound spoofed")):
        assert opened.execute_script(f"return partsWords({count})") == described


def check_heights(browser, windows):
    """The higher the score of a window, the smaller its distance from the top."""
    drawn = one(browser, "#picture .line").get_attribute("d")
    heights = [float(y) for y in re.findall(r"[ML][-\d.]+,([-\d.]+)", drawn)][1:-1]
    scores = [window.score for window in windows]
    assert len(heights) == len(scores)
    slope, offset = np.polyfit(scores, heights, 1)
    assert slope < 0
    assert heights == pytest.approx([slope * score + offset for score in scores], abs=0.1)


def names_by_role(browser) -> dict[str, list[str]]:
    """Return the accessible names of what is not ignored, of each role that has one."""
    roles = {"button", "textbox", "link", "img", "image", "Audio", "meter"}
    named: dict[str, list[str]] = {}
    for node in browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]:
        role = node.get("role", {}).get("value")
        if role in roles and not node.get("ignored"):
            named.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    return named


def image_names(names: dict[str, list[str]]) -> list[str]:
    return [*names.get("img", ()), *names.get("image", ())]


@pytest.mark.slow
def test_a_part_is_played_from_its_start_to_its_end(opened, detector, recording):
    choose(opened, recording)
    wait_for_result(opened)
    start, end = spoofed_parts(detector, recording)[0]
    one(opened, "#parts button").click()
    player = find(opened, "player")
    wait_until(opened, lambda _: float(player.get_property("currentTime")) > start)
    wait_until(opened, lambda _: player.get_property("paused"))
    assert float(player.get_property("currentTime")) == pytest.approx(end, abs=0.6)


def drop(browser, files: list[tuple[str, bytes]]) -> None:
    browser.execute_script(
        """
        const transfer = new DataTransfer();
        arguments[0].forEach(([name, bytes]) =>
          transfer.items.add(new File([new Uint8Array(bytes)], name, { type: 'audio/wav' })));
        document.getElementById('drop').dispatchEvent(
          new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
        """,
        [(name, list(content)) for name, content in files],
    )


def test_a_file_is_dropped(opened, recording):
    drop(opened, [("dropped.wav", recording.read_bytes()[:20044])])
    wait_until(opened, lambda b: find(b, "error").text)
    # The first part of a WAV file, which promises more.
    assert "dropped.wav cannot be decoded to its end" in find(opened, "error").text


@pytest.mark.slow
def test_the_microphone_is_recorded_and_scored(opened):
    button = find(opened, "record")
    button.click()
    wait_until(opened, lambda b: find(b, "recording").is_displayed())
    wait_until(opened, lambda b: find(b, "clock").text == "0:02")
    assert button.text == "Stop and score"
    button.click()
    wait_for_result(opened)
    seconds = float(numbers(opened)["Seconds"])
    assert 2 <= seconds < PATIENCE_S
    assert button.text == "Record with the microphone"
    # What the fake microphone plays is sound: the waveform is no line.
    drawn = one(opened, "#picture .sound").get_attribute("d")
    heights = {y for _, y in re.findall(r"([-\d.]+),([-\d.]+)", drawn)}
    assert len(heights) > 20


def test_mistakes_are_shown_in_words(opened, served, tmp_path):
    junk = tmp_path / "letter.wav"
    junk.write_bytes(b"Dear Sir or Madam" * 100)
    choose(opened, junk)
    wait_until(opened, lambda b: find(b, "error").text)
    assert find(opened, "error").text.startswith("letter.wav is not audio that libsndfile can read")
    assert not find(opened, "result").is_displayed()
    large = tmp_path / "large.wav"
    large.write_bytes(bytes(int(LIMITS.max_mb * 1e6) + 1))
    choose(opened, large)
    wait_until(opened, lambda b: "accepts up to 2 MB" in find(b, "error").text)
    assert "Ask who runs it" in find(opened, "error").text
    assert "Cut" not in find(opened, "error").text
    # And a good one afterwards takes the message away.
    good = tmp_path / "good.wav"
    soundfile.write(good, sound(20000), 16000)
    choose(opened, good)
    wait_for_result(opened)


def test_a_name_is_text_and_never_code(opened, tmp_path):
    path = tmp_path / "<img src=x onerror=alert(1)>.wav"
    path.write_bytes(b"no sound")
    choose(opened, path)
    wait_until(opened, lambda b: find(b, "error").text)
    assert "<img src=x onerror=alert(1)>.wav" in find(opened, "error").text
    assert opened.find_elements(By.TAG_NAME, "img") == []


def test_the_token_is_asked_for(browser, detector, recording):
    with running(detector, token=TOKEN) as service:
        for page in open_page(browser, service.url):
            choose(page, recording)
            wait_until(page, lambda b: find(b, "error").text)
            assert find(page, "error").text.startswith("The token is missing or wrong")
            assert page.switch_to.active_element.get_attribute("id") == "token"
            find(page, "token").send_keys(TOKEN)
            choose(page, recording)
            wait_for_result(page)
            page.refresh()
            assert find(page, "token").get_property("value") == TOKEN


def test_everything_is_reached_by_the_keyboard(opened, recording):
    choose(opened, recording)
    wait_for_result(opened)
    opened.execute_script("document.querySelector('.skip').focus()")
    reached = []
    for _ in range(40):
        ActionChains(opened).send_keys(Keys.TAB).perform()
        active = opened.switch_to.active_element
        reached.append(active.get_attribute("id") or active.text)
        if active.get_attribute("id") == "theme":
            break
    parts = [b.text for b in every(opened, "#parts button")]
    wanted = ["file", "record", "player", *parts, "theme"]
    assert [name for name in dict.fromkeys(reached) if name in wanted] == wanted
    find(opened, "record").send_keys(Keys.ENTER)
    wait_until(opened, lambda b: find(b, "recording").is_displayed())
    find(opened, "record").send_keys(Keys.SPACE)
    wait_until(opened, lambda b: not find(b, "recording").is_displayed())
    wait_until(opened, lambda b: find(b, "result").is_displayed() or find(b, "error").text)


def test_the_description_needs_no_script(opened, served):
    opened.get(f"{served.url}/docs")
    assert opened.find_elements(By.TAG_NAME, "script") == []
    headings = [h.text for h in opened.find_elements(By.TAG_NAME, "h2")]
    paths = [
        "POST /score",
        "GET /health",
        "GET /ready",
        "GET /live",
        "GET /version",
        "GET /metrics",
    ]
    assert headings[:7] == ["Example", *paths]


def test_without_a_threshold_there_is_a_score_and_no_verdict(browser, network, recording):
    with running(plain_detector(network)) as service:
        for page in open_page(browser, service.url):
            choose(page, recording)
            wait_for_result(page)
            assert find(page, "verdict").text == "A score without a verdict"
            assert "so it gives no verdict" in find(page, "explanation").text
            assert find(page, "parts-title").text == "The part with the lowest score"
            assert len(every(page, "#parts button")) == 1
            assert every(page, "#picture .threshold, #picture .part") == []
            names = image_names(names_by_role(page))
            over_time = r"Score over time: from \S+ to \S+"
            assert len([name for name in names if re.fullmatch(over_time, name)]) == 1
            assert not any("spoofed" in name for name in names)


@pytest.fixture(scope="module")
def batch(tmp_path_factory, recording) -> list[Path]:
    """Recordings of which one is none."""
    folder = tmp_path_factory.mktemp("batch")
    paths = []
    for number, name in enumerate(("a.wav", "=b, 2.wav", "c.wav")):
        paths.append(folder / name)
        soundfile.write(paths[-1], sound(20000 + 16000 * number, number), 16000)
    paths.insert(2, folder / "letter.wav")
    paths[2].write_bytes(b"Dear Sir or Madam" * 100)
    return paths


def wait_for_batch(browser, words):
    wait_until(browser, lambda b: find(b, "count").text == words)
    wait_until(browser, lambda b: find(b, "record").is_enabled())


def rows(browser) -> list[list[str]]:
    return browser.execute_script(
        "return [...document.querySelectorAll('#rows tr')].map("
        "(row) => [...row.children].map((cell) => cell.textContent))"
    )


def test_several_files_are_scored_into_a_table(opened, detector, batch):
    find(opened, "file").send_keys("\n".join(map(str, batch)))
    wait_for_batch(opened, "3 of 4 scored, 1 could not be scored")
    table = rows(opened)
    assert [row[0] for row in table] == [path.name for path in batch]
    words = {
        "spoof": ("spoofed",),
        "bona fide": ("genuine",),
        "mixed": ("part sounds spoofed", "parts sound spoofed"),
    }
    for path, row in zip(batch, table, strict=True):
        if path.name == "letter.wav":
            assert row[1].startswith("letter.wav is not audio that libsndfile can read")
            continue
        expected = detector.score_whole(path)
        assert row[1] in words[expected.verdict]
        assert float(row[2].replace("−", "-")) == pytest.approx(expected.score, abs=6e-5)
        assert row[3] == f"0:{int(expected.seconds):02}"
    # Nothing is in the way until one is chosen; then its details are shown.
    assert not find(opened, "result").is_displayed()
    for path in (batch[3], batch[0]):
        button = next(b for b in every(opened, "#rows button") if b.text == path.name)
        button.click()
        wait_for_result(opened)
        assert find(opened, "name").text.startswith(path.name)
        assert numbers(opened)["SHA-256"] == sha256_of(path)
        assert numbers(opened)["Score"] == f"{detector.score_whole(path).score:.4f}"
        marked = every(opened, "#rows [aria-current]")
        assert [element.text for element in marked] == [path.name]


def test_files_that_are_dropped_together_are_all_scored(opened, batch):
    drop(opened, [(path.name, path.read_bytes()) for path in batch[:2]])
    wait_for_batch(opened, "2 of 2 scored")
    assert [row[0] for row in rows(opened)] == ["a.wav", "=b, 2.wav"]


def save_tables(browser, folder: Path) -> tuple[list[dict], list[dict]]:
    """Save the table as CSV and as JSON; return what is in them."""
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    saved = [folder / "scores.csv", folder / "scores.json"]
    for path in saved:
        find(browser, f"save-{path.suffix[1:]}").click()
    wait_until(browser, lambda _: all(path.is_file() for path in saved))
    with saved[0].open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)), json.loads(saved[1].read_text(encoding="utf-8"))


def test_the_table_is_saved_as_csv_and_as_json(opened, detector, network, batch, tmp_path):
    find(opened, "file").send_keys("\n".join(map(str, batch)))
    wait_for_batch(opened, "3 of 4 scored, 1 could not be scored")
    # A column of a score is one of the table where an answer has it.
    opened.execute_script("data.columns.push(['level_dbfs', 'offset'], ['speaker']);")
    table, answers = save_tables(opened, tmp_path)
    assert list(table[0])[-3:] == ["parts", "level_dbfs", "offset"]
    assert not any(
        "shown" in each or "outline" in each
        for answer in answers
        for each in (answer, *answer["recordings"])
    )
    # What a spreadsheet would compute is text.
    assert [row["path"] for row in table] == ["a.wav", "'=b, 2.wav", "letter.wav", "c.wav"]
    for path, row, answer in zip(batch, table, answers, strict=True):
        (recording,) = answer["recordings"]
        assert recording["path"] == path.name
        if path.name == "letter.wav":
            assert row["error"] == recording["error"]
            assert row["score"] == row["sha256"] == ""
            continue
        expected = detector.score_whole(path)
        assert float(row["score"]) == recording["score"] == pytest.approx(expected.score, abs=1e-6)
        assert row["verdict"] == recording["verdict"] == expected.verdict
        assert float(row["level_dbfs"]) == recording["level_dbfs"]
        assert row["sha256"] == recording["sha256"] == sha256_of(path)
        assert row["network_sha256"] == answer["made_by"]["network_sha256"] == sha256_of(network)
        assert row["asdf"] == asdf.__version__
        assert row["date"] == answer["made_by"]["date"]
        assert recording["windows"]


@pytest.mark.slow
def test_who_finds_no_room_waits_and_goes_on(browser, detector, batch):
    with running(detector, replace(LIMITS, queue=1)) as service:
        for page in open_page(browser, service.url):
            page.execute_script(
                "window.said = [];"
                "new MutationObserver(() => said.push("
                "document.getElementById('status').textContent))"
                ".observe(document.getElementById('status'), {childList: true});"
            )
            with service.service.slot():
                find(page, "file").send_keys("\n".join(map(str, batch[:2])))
                wait_until(page, lambda b: "It is sent again in" in find(b, "status").text)
            wait_for_batch(page, "2 of 2 scored")
            said = page.execute_script("return said")
            waits = [words for words in said if "It is sent again in" in words]
            assert waits[0].startswith("1 of 2: 1 recordings are already waiting")


def test_the_time_left_is_shown(browser, detector, tmp_path):
    long = tmp_path / "long.wav"
    soundfile.write(long, sound(59 * 16000), 16000)
    with running(detector) as service:
        service.wait_until_ready()
        gate = Gate(detector)
        service.service.passes._pipeline = gate
        pages = open_page(browser, service.url)
        page = next(pages)
        choose(page, long)
        gate.let_through()
        words = r"The detector is listening\. About \d+ (s|min) left\."
        wait_until(page, lambda b: re.fullmatch(words, find(b, "status").text))
        gate.let_through(1000)
        wait_for_result(page)
        assert find(page, "status").text == ""
        next(pages, None)


def test_what_waits_can_be_cancelled(browser, detector, batch):
    with running(detector, replace(LIMITS, queue=1)) as service:
        for page in open_page(browser, service.url):
            with service.service.slot():
                find(page, "file").send_keys("\n".join(map(str, batch[:2])))
                wait_until(page, lambda b: "It is sent again in" in find(b, "status").text)
                find(page, "cancel").click()
                wait_for_batch(page, "0 of 2 scored, 2 could not be scored")
            assert [row[1] for row in rows(page)] == ["Cancelled.", "Cancelled."]
            assert find(page, "status").text == "Cancelled."


def test_paper_has_what_the_screen_shows(opened, recording, tmp_path):
    long = tmp_path / f"{'a name without any blanks' * 6}.wav".replace(" ", "-")
    long.write_bytes(recording.read_bytes())
    find(opened, "file").send_keys(f"{recording}\n{long}")
    wait_for_batch(opened, "2 of 2 scored")
    every(opened, "#rows button")[1].click()
    wait_for_result(opened)
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        wait_for_drawing(opened)
        for name in ("input", "save", "theme", "player", "programs"):
            assert not find(opened, name).is_displayed(), name
        for name in ("list", "verdict", "name", "picture", "parts", "numbers"):
            assert find(opened, name).is_displayed(), name
        printed = find(opened, "result").text
        for text in (long.name, sha256_of(recording), f"ASDF {asdf.__version__}", "UTC"):
            assert text in printed
        assert opened.execute_script("return document.documentElement.scrollWidth") <= 718
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


PART = {"start_s": 12.0, "end_s": 24.5, "score": -3.0}
LATER = {"start_s": 61.0, "end_s": 65.0, "score": -1.0}
TWO = "Parts of this sound spoofed (0:12 to 0:24, lowest score −3; 1:01 to 1:05, lowest score −1"
# Verdict, parts, class of the headline and how it begins.
HEADLINES = [
    ("bona fide", [], "genuine", "This sounds genuine: like a person speaking"),
    ("mixed", [PART], "mixed", "Part of this sounds spoofed (0:12 to 0:24, lowest score −3)"),
    ("mixed", [LATER, PART], "mixed", f"{TWO})"),
    ("mixed", [PART, *4 * [LATER]], "mixed", f"{TWO}; 1:01 to 1:05, lowest score −1 and 2 more)"),
    ("spoof", [PART], "spoof", "This sounds spoofed"),
    (None, [], "", "A score without a verdict"),
]
LIKELIHOODS = [
    (np.log(10), "is about 10 times as common in genuine speech as in spoofed speech"),
    (-np.log(20), "is about 20 times as common in spoofed speech as in genuine speech"),
    (12, "more than 1,000 times as common in genuine speech"),
    (12, "recordings like its calibration set"),
]
TIMES = [(59.96, "1:00.0"), (0.04, "0:00.0"), (61.25, "1:01.3"), (599.94, "9:59.9")]
LEFT = [(0.2, "About 1 s"), (89, "About 89 s"), (125, "About 2 min"), (3000, "About 50 min")]


def test_numbers_in_words(opened):
    for verdict, parts, kind, words in HEADLINES:
        script = "return verdictWords({ verdict: arguments[0], parts: arguments[1] }, null)"
        said = opened.execute_script(script, verdict, parts)
        assert (said["kind"], said["text"][: len(words)]) == (kind, words)
    for llr, words in LIKELIHOODS:
        assert words in opened.execute_script("return likelihoodWords(arguments[0])", float(llr))
    for seconds, words in TIMES:
        assert opened.execute_script(f"return clockWithTenths({seconds})") == words
    for seconds, words in LEFT:
        assert opened.execute_script(f"return leftWords({seconds})") == f"{words} left."


@pytest.fixture(scope="module")
def served_mixed(network, recording):
    """A service whose threshold lies between the recording's score and its lowest window."""
    scored = plain_detector(network).score_whole(recording)
    windows = plain_detector(network).score_over_time(recording, WINDOW_S, WINDOW_S / 2)
    lowest = min(max(first.score, second.score) for first, second in pairwise(windows))
    with running(plain_detector(network, threshold=(lowest + scored.score) / 2)) as service:
        yield service


@pytest.fixture
def opened_mixed(browser, served_mixed):
    yield from open_page(browser, served_mixed.url)


def test_no_headline_is_green_above_a_part_that_is_marked(opened_mixed, served_mixed, recording):
    choose(opened_mixed, recording)
    wait_for_result(opened_mixed)
    verdict = find(opened_mixed, "verdict")
    assert verdict.get_attribute("class") == "verdict mixed"
    assert verdict.text.startswith(("Part of this sounds spoofed", "Parts of this sound spoofed"))
    assert every(opened_mixed, "#picture .part")
    answer = served_mixed.score(recording.read_bytes()).json["recordings"][0]
    assert answer["verdict"] == "mixed"
    entries = every(opened_mixed, "#parts li")
    assert len(entries) == len(answer["parts"])
    assert not opened_mixed.find_elements(By.ID, "band")
    assert colour(opened_mixed, "#verdict", "borderLeftColor") == colour_named(opened_mixed, "--c4")


def colour(browser, selector: str, name: str) -> str:
    return browser.execute_script(
        "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]",
        selector,
        name,
    )


def colour_named(browser, name: str) -> str:
    return browser.execute_script(
        "const probe = document.createElement('i'); probe.style.color = `var(${arguments[0]})`;"
        "document.body.append(probe); return getComputedStyle(probe).color",
        name,
    )


def test_a_detector_that_cannot_tell_says_so_from_the_start_and_accuses_nobody(browser, tmp_path):
    """Amber before a recording is chosen, and grey whatever it scores."""
    weights = ROOT / "tests" / "fixtures" / "networks" / "AASIST-L.pth"
    path = tmp_path / "net.pt"
    assert run_command(["import", str(weights), str(path)]) == 0
    file = read_network_file(path)
    # What 800 recordings of the corpus mini support.
    map_ = Calibration(0.4459, 1.4017, -0.0338, lowest_llr=-2.05, highest_llr=0.94)
    file.calibration = map_.content()
    write_network_file(path, file)
    with running(asdf.Detector(path, "cpu", threads=1, speech_check="off")) as service:
        for page in open_page(browser, service.url):
            band = find(page, "band")
            assert "all of its verdicts are 'undecided'" in band.text
            assert colour(page, "#band", "borderLeftColor") == colour_named(page, "--c4")
            path = tmp_path / "call.wav"
            samples = voiced(12)
            soundfile.write(path, samples, 16000)
            answer = service.score(path.read_bytes()).json["recordings"][0]
            # Parts lie below its threshold, and none is called spoofed.
            assert answer["score"] < -0.7 and answer["parts"]
            choose(page, path)
            wait_for_result(page)
            verdict = find(page, "verdict")
            assert answer["verdict"] == "undecided"
            assert verdict.get_attribute("class") == "verdict undecided"
            assert verdict.text.startswith("The detector cannot tell: ")
            grey = colour_named(page, "--soft")
            assert colour(page, "#verdict", "borderLeftColor") == grey
            assert colour(page, "#picture .part", "fill") == grey
            assert find(page, "parts-title").text == "Parts that have lower scores"
            assert "spoofed" not in find(page, "caption").text
            # What the columns of a score state of it stands in the record, as in a case.
            log10 = numbers(page)["log10 of the ratio"]
            assert log10 == f"{answer['log10_llr']:.4f}".replace("-", "−")


def test_silence_is_not_judged(opened, tmp_path):
    path = tmp_path / "silence.wav"
    soundfile.write(path, np.zeros(40000), 16000)
    choose(opened, path)
    wait_for_result(opened)
    assert find(opened, "verdict").text == "Not judged: this is silence"
    assert find(opened, "remark").text.startswith("not judged: digital silence")


def test_what_is_no_speech_is_not_judged(browser, network, tmp_path):
    path = tmp_path / "tone.wav"
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * 440 * np.arange(80000) / 16000), 16000)
    detector = plain_detector(network, threshold=1e6, speech_check="built-in")
    with running(detector) as service:
        for page in open_page(browser, service.url):
            choose(page, path)
            wait_for_result(page)
            assert find(page, "verdict").text == "Not judged: no speech was found"
            assert find(page, "verdict").get_attribute("class").split() == ["verdict"]
            assert "means nothing for this recording" in find(page, "explanation").text
            assert not every(page, "#picture .part")
            assert find(page, "parts-title").text == "The part with the lowest score"


def test_the_shipped_detector_says_its_worth_from_the_start(browser):
    with running(asdf.Detector("small", "cpu", threads=1)) as service:
        for page in open_page(browser, service.url):
            band = find(page, "band")
            assert "states no ratio above" in band.text and "no evidence by itself" in band.text
            assert colour(page, "#band", "borderLeftColor") == colour_named(page, "--c4")
