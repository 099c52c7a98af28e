"""The service's page with turns of speakers: chosen, dropped, in batches, saved."""

import pytest
import soundfile

from tests.extras.service.conftest import network, running
from tests.extras.service.test_speakers_of_uploads import TURNS, as_rttm
from tests.scripts.chromium import needs_chromium, one, wait_for_drawing
from tests.scripts.test_service_page import (
    choose,
    find,
    open_page,
    plain_detector,
    rows,
    save_tables,
    wait_for_batch,
    wait_for_result,
    wait_until,
)
from tests.unit.conftest import sound

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")


pytestmark = needs_chromium
__all__ = ["network"]

RATE = 16000


@pytest.fixture(scope="module")
def detector(network):
    return plain_detector(network, threshold=0.0)


@pytest.fixture(scope="module")
def served(detector):
    with running(detector) as service:
        yield service


@pytest.fixture
def opened(browser, served):
    yield from open_page(browser, served.url)


@pytest.fixture
def call(tmp_path):
    """A conversation, and its turns under another's name."""
    soundfile.write(tmp_path / "my call.wav", 0.2 * sound(7 * RATE, 4), RATE)
    (tmp_path / "turns.rttm").write_bytes(as_rttm(TURNS, "my_call"))
    return tmp_path


def speaker_rows(browser) -> list[list[str]]:
    return browser.execute_script(
        "return [...document.querySelectorAll('#speaker-rows tr')].map("
        "(row) => [...row.children].map((cell) => cell.textContent))"
    )


def test_turns_that_are_chosen_first_give_speakers_a_row(opened, detector, call):
    find(opened, "turns").send_keys(str(call / "turns.rttm"))
    wait_until(opened, lambda b: find(b, "turns-chosen").text == "turns.rttm")
    choose(opened, call / "my call.wav")
    wait_for_result(opened)
    expected = detector.score_speakers(call / "my call.wav", call / "turns.rttm")
    shown = speaker_rows(opened)
    assert [row[0] for row in shown] == ["ann", "bob", "cy"]
    words = {"spoof": "spoofed", "bona fide": "genuine", "mixed": "part"}
    for row, speaker in zip(shown[:2], expected, strict=False):
        assert words[speaker.result.verdict] in row[1]
        assert float(row[2].replace("−", "-")) == pytest.approx(speaker.result.score, abs=6e-5)
    assert shown[2][1] == "Not scored: this speaker never speaks alone."
    assert "of the whole recording" in find(opened, "speakers-note").text
    # Used once: the next call has other speakers.
    assert find(opened, "turns-chosen").text == ""
    choose(opened, call / "my call.wav")
    wait_until(opened, lambda b: not find(b, "speakers").is_displayed())
    wait_for_batch(opened, "2 of 2 scored")


def test_turns_are_removed_before_they_are_used(opened, call):
    find(opened, "turns").send_keys(str(call / "turns.rttm"))
    wait_until(opened, lambda b: find(b, "turns-remove").is_displayed())
    find(opened, "turns-remove").click()
    assert find(opened, "turns-chosen").text == ""
    choose(opened, call / "my call.wav")
    wait_for_result(opened)
    assert not find(opened, "speakers").is_displayed()


def test_turns_of_a_batch_go_with_the_recording_that_they_name(opened, call, tmp_path):
    """Those of one call are never taken for another's, and both tables have what was found."""
    soundfile.write(call / "other.wav", 0.2 * sound(2 * RATE, 5), RATE)
    chosen = [call / name for name in ("other.wav", "turns.rttm", "my call.wav")]
    find(opened, "file").send_keys("\n".join(map(str, chosen)))
    wait_for_batch(opened, "2 of 2 scored")
    other, conversation = rows(opened)
    assert other[0] == "other.wav" and "speaker" not in other[1]
    assert "3 speakers: " in conversation[1] and "1 not judged" in conversation[1]
    one(opened, "#rows button").click()
    wait_for_result(opened)
    assert find(opened, "speakers").text.splitlines() == [
        "Speakers",
        "There are no turns of this recording in turns.rttm.",
    ]
    table, [_, answer] = save_tables(opened, tmp_path)
    assert [row["path"] for row in table] == ["other.wav", *4 * ["my call.wav"]]
    assert [row["speaker"] for row in table] == ["", "", "ann", "bob", "cy"]
    for row, entry in zip(table[2:], answer["speakers"], strict=True):
        assert row["score"] == ("" if entry["score"] is None else str(entry["score"]))
        assert row["verdict"] == (entry["verdict"] or "")
        assert float(row["overlapped_s"]) == entry["overlapped_s"]


def test_on_a_phone_all_of_it_is_seen(opened, call):
    find(opened, "turns").send_keys(str(call / "turns.rttm"))
    wait_until(opened, lambda b: find(b, "turns-chosen").text)
    choose(opened, call / "my call.wav")
    wait_for_result(opened)
    try:
        for width in (320, 375):
            metrics = {"width": width, "height": 640, "deviceScaleFactor": 2, "mobile": True}
            opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            wait_for_drawing(opened)
            assert opened.execute_script("return document.documentElement.scrollWidth") <= width
            inside = "const box = document.querySelector('#speakers .scroll');"
            assert opened.execute_script(f"{inside} return box.scrollWidth <= box.clientWidth")
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
