"""One verdict per speaker of a conversation, from what each says alone."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.segments import Segment, speakers_alone
from tests.unit.conftest import small_settings, sound, write_small_network

RATE = 16000
# Ann alone from 0 to 3 and 5.5 to 6.5, Bob from 3.2 to 5.5, Cy half a second.
TURNS = {
    "ann": [Segment(0.0, 3.2), Segment(5.5, 6.5)],
    "bob": [Segment(3.0, 5.5)],
    "cy": [Segment(6.5, 7.0)],
}


@pytest.fixture
def call(tmp_path, monkeypatch):
    """A conversation of 7 s, its turns, and a network."""
    monkeypatch.chdir(tmp_path)
    samples = sound(7 * RATE, 4).astype(np.float32)
    soundfile.write("call.wav", samples, RATE, subtype="FLOAT")
    lines = []
    for speaker, turns in TURNS.items():
        for start, end in turns:
            lines.append(f"SPEAKER call 1 {start} {end - start:.3f} <NA> <NA> {speaker} <NA>\n")
    (tmp_path / "call.rttm").write_text("".join(lines))
    write_small_network(tmp_path / "net.pt")
    return samples


def detector(**options):
    return asdf.Detector("net.pt", "cpu", speech_check="off", **options)


def alone(samples, *spans):
    return np.concatenate([samples[round(a * RATE) : round(b * RATE)] for a, b in spans])


def test_a_speaker_is_scored_as_the_stretches_joined(call):
    ann, bob, cy = detector(threshold=0.0).score_speakers("call.wav", "call.rttm")
    assert [one.speaker.name for one in (ann, bob, cy)] == ["ann", "bob", "cy"]
    whole = detector(threshold=0.0)
    for one, spans in ((ann, [(0, 3), (5.5, 6.5)]), (bob, [(3.2, 5.5)])):
        expected = whole.score_whole(alone(call, *spans), RATE)
        assert one.result.score == pytest.approx(expected.score, abs=1e-6)
        assert one.result.verdict == expected.verdict
        assert one.result.seconds == pytest.approx(expected.seconds)
        assert one.result.windows == expected.windows
    assert ann.speaker.overlapped_s == pytest.approx(0.2)


def test_less_than_two_seconds_have_no_verdict(call):
    *_, cy = detector(threshold=0.0).score_speakers("call.wav", "call.rttm")
    assert cy.result.verdict is None and not cy.result.judged
    assert "this speaker speaks alone for only 0.50 s" in cy.result.remark
    assert cy.result.score is not None


def test_times_are_those_of_the_conversation(call):
    # Every window is below such a threshold, so that the part is all of the speech.
    ann, bob, _ = detector(threshold=1e6).score_speakers("call.wav", "call.rttm")
    assert [(part.start_s, part.end_s) for part in bob.result.parts] == [(3.2, 5.5)]
    assert ann.result.parts[0].start_s == 0 and ann.result.parts[-1].end_s == 6.5
    for window in ann.result.windows_scores:
        assert 0 <= window.start_s < window.end_s <= 6.5
    lowest = bob.result.lowest
    expected = detector().score_whole(alone(call, (3.2, 5.5)), RATE).lowest
    assert lowest.start_s == pytest.approx(3.2 + expected.start_s)
    assert lowest.end_s == pytest.approx(3.2 + expected.end_s)


def test_samples_and_stated_speakers_give_the_same(call):
    from_file = detector().score_speakers("call.wav", "call.rttm")
    from_samples = detector().score_speakers(call, speakers_alone(TURNS), RATE)
    for one, other in zip(from_file, from_samples, strict=True):
        assert one.result.score == pytest.approx(other.result.score, abs=1e-6)


def test_speech_activity_detection_is_of_what_a_speaker_says(call):
    settings = small_settings()
    settings.sad.mode = "on"
    write_small_network(Path("sad.pt"), settings)
    quiet = call.copy()
    quiet[: 2 * RATE] *= 1e-4
    sad = asdf.Detector("sad.pt", "cpu", speech_check="off")
    ann, *_ = sad.score_speakers(quiet, speakers_alone(TURNS), RATE)
    expected = sad.score_whole(alone(quiet, (0, 3), (5.5, 6.5)), RATE)
    assert ann.result.score == pytest.approx(expected.score, abs=1e-6)
    assert ann.result.seconds_scored == expected.seconds_scored < 3


def test_a_speaker_who_is_never_alone(call):
    turns = speakers_alone({"ann": [Segment(0.0, 5.0)], "bob": [Segment(1.0, 2.0)]})
    ann, bob = detector().score_speakers("call.wav", turns)
    assert ann.result.score is not None
    assert "[bob]: this speaker never speaks alone" in bob.result.error


def test_turns_of_another_recording_are_refused(call, tmp_path):
    turns = speakers_alone({"ann": [Segment(0.0, 9.0)]})
    [ann] = detector().score_speakers("call.wav", turns)
    assert "a turn ends at 9.00 s, but the recording at 7.00 s" in ann.result.error
    soundfile.write("other.wav", call, RATE)
    with pytest.raises(AsdfError, match="has turns of 'call', not of 'other'"):
        detector().score_speakers("other.wav", "call.rttm")


def test_text_tables_and_the_journal_have_a_row_per_speaker(call, tmp_path, capsys):
    words = ["score", "net.pt", "call.wav", "--rttm", "call.rttm", "--device", "cpu"]
    words += ["--speech-check", "off", "--threshold", "0"]
    assert main([*words, "--csv", "out.csv"]) == 0
    captured = capsys.readouterr()
    names = [line.split("\t")[0] for line in captured.out.splitlines()]
    assert names == ["call.wav [ann]", "call.wav [bob]", "call.wav [cy]"]
    assert "less than 2 s in all gets no verdict" in captured.err
    assert main([*words, "--json", "out.json"]) == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    document = json.loads((tmp_path / "out.json").read_text())
    expected = detector(threshold=0.0).score_speakers("call.wav", "call.rttm")
    for row, entry, one in zip(rows, document["recordings"], expected, strict=True):
        assert row["path"] == entry["path"] == "call.wav"
        assert row["speaker"] == entry["speaker"] == one.speaker.name
        assert float(row["score"]) == entry["score"] == one.result.score
        assert row["verdict"] == (one.result.verdict or "")
        assert float(row["overlapped_s"]) == one.speaker.overlapped_s
        known = {key: value for key, value in entry.items() if key != "sha256"}
        assert known == json.loads(json.dumps(one.entry()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rttm", "call.rttm", "--window", "1"], "--window: for whole recordings"),
        (["--rttm", "call.rttm", "--trial"], "--trial: for whole recordings"),
        (["--rttm", "missing.rttm"], "missing.rttm"),
    ],
)
def test_mistakes(call, capsys, words, message):
    assert main(["score", "net.pt", "call.wav", *words]) == 2
    assert message in capsys.readouterr().err


def test_recordings_of_one_name_are_refused(call, tmp_path, capsys):
    (tmp_path / "b").mkdir()
    soundfile.write("b/call.wav", call, RATE)
    assert main(["score", "net.pt", "call.wav", "b/call.wav", "--rttm", "call.rttm"]) == 2
    assert "two recordings have the name call" in capsys.readouterr().err
