"""Verdicts that the numbers do not support are 'undecided', in every output."""

import csv
import json
import os
import pty
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.commands.score_tables import Row, Screen
from asdf.metrics.calibration import Calibration
from asdf.scoring.columns import CANNOT_TELL, LlrColumn, Ratio, ScoreColumn
from asdf.scoring.document import Heading
from asdf.scoring.parts import PartColumn, PartSearch
from asdf.scoring.scored import ChannelColumn, Differing, Scored, WindowScore, decide_verdict
from tests.unit.audio.test_channels import voice
from tests.unit.audio.test_speech_check import siren
from tests.unit.conftest import small_settings, sound, write_small_network

RATE = 16000
ANY = (None, None)
# A map so flat that every score has nearly the same LLR, its offset.
FLAT = 1e-6


def calibration(llr: float, bounds: tuple[float | None, float | None] = ANY, *maps) -> Calibration:
    others = {"replicates": [[FLAT, each] for each in maps]} if maps else {}
    low, high = bounds
    return Calibration(FLAT, llr, 0.0, lowest_llr=low, highest_llr=high, others=others)


@pytest.mark.parametrize(
    ("learnt", "threshold", "expected"),
    [
        (calibration(0.68), None, "undecided"),
        (calibration(-0.68), None, "undecided"),
        (calibration(0.70), None, "bona fide"),
        (calibration(-0.70), None, "spoof"),
        # After bounds: what the map says beyond them does not count.
        (calibration(5.0, (-2.0, 0.6)), None, "undecided"),
        (calibration(-5.0, (-0.6, 2.0)), None, "undecided"),
        # No ratio above 3 for a class: 1.09 is one of 2.97, and 1.11 of 3.03.
        (calibration(5.0, (-1.09, 1.09)), None, "undecided"),
        (calibration(-5.0, (-1.09, 1.09)), None, "undecided"),
        (calibration(-5.0, (-2.05, 0.94)), None, "undecided"),
        (calibration(5.0, (-0.94, 2.05)), None, "undecided"),
        (calibration(5.0, (-1.11, 1.11)), None, "bona fide"),
        (calibration(-5.0, (-1.11, 1.11)), None, "spoof"),
        # The bootstrap's interval contains a ratio of 1.
        (calibration(1.0, ANY, -0.5, 0.9, 1.2, 3.0), None, "undecided"),
        (calibration(-1.0, ANY, -3.0, -0.9, -1.2, 0.5), None, "undecided"),
        (calibration(1.0, (-2.0, 2.0), 0.5, 0.9, 1.2, 3.0), None, "bona fide"),
        (calibration(-1.0, ANY, -0.5, -0.9, -1.2, -3.0), None, "spoof"),
        # A threshold of one's own stands, with its costs.
        (calibration(1.0), 2.0, "spoof"),
        (calibration(0.5), 2.0, "undecided"),
    ],
)
def test_a_ratio_that_does_not_tell(tmp_path: Path, learnt, threshold, expected) -> None:
    path = write_small_network(tmp_path / "net.pt", calibration=learnt.content())
    options: dict[str, Any] = {"threshold": threshold, "speech_check": "off"}
    detector = asdf.Detector(path, "cpu", threads=1, **options)
    samples = sound(8000)
    results = [detector.score(samples, RATE), detector.score_trial(samples, RATE)]
    results += [detector.score_whole(samples, RATE), *detector.score_many([(samples, RATE)])]
    assert [result.verdict for result in results] == [expected] * 4
    # The numbers stay.
    assert results[0].llr == pytest.approx(float(learnt.llr(0.0)), abs=1e-4)


def windows(*scores: float) -> list[WindowScore]:
    return [WindowScore(2 * i, 2 * i + 4, score) for i, score in enumerate(scores)]


CLEAR = windows(2.0, -1.0, -1.0, 2.0)
UNCLEAR = windows(2.0, -0.5, -0.5, 2.0)
NONE = windows(2.0, -1.0, 2.0, -1.0)
LITTLE = calibration(0.0, (-2.0, 0.9))


@pytest.mark.parametrize(
    ("ratio", "scores", "learnt", "expected", "with_little_speech"),
    [
        (Ratio(2.0), CLEAR, calibration(0.0), "mixed", "mixed"),
        (Ratio(2.0), UNCLEAR, calibration(0.0), "undecided", "undecided"),
        (Ratio(2.0), NONE, calibration(0.0), "bona fide", "undecided"),
        # Parts that are clear win over a whole that is not, on either side of the threshold.
        (Ratio(0.2, is_clear=False), CLEAR, calibration(0.0), "mixed", "mixed"),
        (Ratio(-0.2, is_clear=False), CLEAR, calibration(0.0), "mixed", "mixed"),
        (Ratio(-0.2, is_clear=False), UNCLEAR, calibration(0.0), "undecided", "undecided"),
        (Ratio(-0.2, is_clear=False), NONE, calibration(0.0), "undecided", "undecided"),
        (Ratio(-2.0), CLEAR, calibration(0.0), "spoof", "mixed"),
        (Ratio(-2.0), NONE, calibration(0.0), "spoof", "undecided"),
        # A set that supports little supports no part either.
        (Ratio(0.9, 2.0, is_clear=False), CLEAR, LITTLE, "undecided", "undecided"),
        # Scores without a calibration have no ratio that could be unclear.
        (None, UNCLEAR, None, "mixed", "mixed"),
    ],
)
def test_mixed_and_undecided(ratio, scores, learnt, expected, with_little_speech) -> None:
    parts = PartSearch(4 * RATE, 2 * RATE, 0.0, calibration=learnt).find_parts(scores)
    values: dict[str, Any] = {"parts": parts}
    if ratio is not None:
        values["llr"] = ratio
    # In whichever order they were computed.
    for keys in (list(values), list(values)[::-1]):
        columns = {"parts": PartColumn, "llr": LlrColumn}
        ordered = {key: values[key] for key in keys}
        result = Scored(0, None, 2.0, threshold=0.0, values=ordered, columns=columns)
        if ratio is not None:
            result = replace(result, score=ratio.llr)
        assert decide_verdict(result) == expected
        assert decide_verdict(replace(result, speech_share=0.5)) == expected
        assert decide_verdict(replace(result, speech_share=0.49)) == with_little_speech


def test_parts_that_are_not_clear_do_not_sound_spoofed() -> None:
    search = PartSearch(4 * RATE, 2 * RATE, 0.0, calibration=calibration(0.0))
    assert PartColumn.words(search.find_parts(CLEAR)).startswith("1 part sounds spoofed: 0:02-0:08")
    assert PartColumn.words(search.find_parts(UNCLEAR)).startswith("1 part below 0: 0:02-0:08")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["bona fide", "undecided"], "undecided"),
        (["undecided", "undecided"], "undecided"),
        (["undecided", "spoof"], "mixed"),
        (["bona fide", "mixed", "undecided"], "mixed"),
        (["undecided", None], "undecided"),
    ],
)
def test_channels_that_cannot_be_told(verdicts: list[str | None], expected: str) -> None:
    channels = []
    for number, verdict in enumerate(verdicts):
        channels.append({"channel": number, "verdict": verdict, "score": -1.0})
    value = Differing("", tuple(channels))
    assert ChannelColumn.veto(value, "bona fide") == expected
    # Another threshold makes no verdict of what was undecided.
    column = ChannelColumn(-9.0)
    again = column.restored(json.loads(json.dumps(column.saved(value))))
    undecided = [verdict == "undecided" for verdict in verdicts]
    assert [each["verdict"] == "undecided" for each in again.channels] == undecided


@pytest.fixture(scope="module")
def of_two_seconds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = small_settings(max_evaluation_utterance_length_in_samples=2 * RATE)
    return write_small_network(tmp_path_factory.mktemp("long") / "net.pt", settings)


@pytest.mark.parametrize("parts", [True, False])
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([voice(1, 2), np.resize(siren(), 8 * RATE)], "undecided"),
        ([voice(1, 8), np.resize(siren(), 2 * RATE)], "bona fide"),
        # Digital silence says nothing of the rest, and does not count.
        ([voice(1, 2), np.zeros(8 * RATE)], "bona fide"),
    ],
)
def test_too_little_speech(of_two_seconds: Path, tmp_path: Path, pieces, expected, parts) -> None:
    detector = asdf.Detector(of_two_seconds, "cpu", threads=1, threshold=-1000, parts=parts)
    samples = np.concatenate(pieces)
    soundfile.write(tmp_path / "a.wav", samples, RATE)
    [many] = detector.score_many([tmp_path / "a.wav"], whole=True)
    stream = detector.stream(RATE, 2, 1 if parts else 2)
    stream.add(samples.astype(np.float32))
    stream.finish()
    for result in (detector.score(samples, RATE), many, stream.score):
        assert result.verdict == expected
        # Those that are searched for parts overlap by half.
        counts = f"speech in only {2 if parts else 1} of {9 if parts else 5} windows"
        assert (result.remark == counts) == (expected == "undecided")
        assert ("speech in only" in result.remark) == (expected == "undecided")
    assert (many.speech_share < 0.5) == (expected == "undecided")


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (np.resize(siren(), 8 * RATE), "no speech found"),
        (np.pad(np.resize(siren(), 4 * RATE), (0, 4 * RATE)), "no speech found"),
        (np.zeros(8 * RATE), "digital silence"),
    ],
)
def test_what_is_not_judged_has_one_reason(of_two_seconds: Path, samples, problem) -> None:
    score = asdf.Detector(of_two_seconds, "cpu", threshold=0.0).score(samples, RATE)
    assert score.remark.startswith(f"not judged: {problem}") and ";" not in score.remark
    assert score.verdict is None


def test_every_output_of_the_command_says_it(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    learnt = calibration(1.0, (-3.0, 3.0), -0.5, 2.5)
    write_small_network(tmp_path / "net.pt", calibration=learnt.content())
    soundfile.write("call.wav", sound(8000), RATE)
    outputs = ["--csv", "o.csv", "--json", "o.json", "--device", "cpu"]
    assert main(["score", "net.pt", "call.wav", *outputs, "--speech-check", "off"]) == 0
    assert capsys.readouterr().out.split("\t")[2].strip() == "undecided"
    [row] = csv.DictReader(Path("o.csv").read_text().splitlines())
    [entry] = json.loads(Path("o.json").read_text())["recordings"]
    assert row["verdict"] == entry["verdict"] == "undecided"
    assert entry["llr"] == pytest.approx(1.0, abs=1e-4)
    assert entry["llr_words"] == "weak support for bona fide rather than spoof"


def test_too_little_speech_is_known_to_the_command(of_two_seconds, tmp_path, monkeypatch) -> None:
    """Its verdicts are made from the journal."""
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", np.concatenate([voice(1, 2), np.resize(siren(), 8 * RATE)]), RATE)
    options = ["--threshold", "-1000", "--device", "cpu", "--csv", "o.csv"]
    assert main(["score", str(of_two_seconds), "a.wav", *options]) == 0
    [row] = csv.DictReader(Path("o.csv").read_text().splitlines())
    assert row["verdict"] == "undecided"
    assert re.fullmatch(r"speech in only \d of \d windows", row["remark"])


class DoubtColumn(ScoreColumn):
    key = "doubt"

    @classmethod
    def doubts(cls, value: Any) -> bool:
        return value


@pytest.mark.parametrize("doubt", [False, True])
def test_a_terminal_shows_it_in_grey_with_the_sentence(monkeypatch, doubt: bool) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    # Also of a recording whose other verdicts would be amber.
    values = {"llr": Ratio(0.9441, is_clear=False), "doubt": doubt}
    columns = {"llr": LlrColumn, "doubt": DoubtColumn}
    known: dict[str, Any] = {"values": values, "columns": columns, "name": "call.wav"}
    result = Scored(0, None, 0.9441, verdict="undecided", **known)
    outer, inner = pty.openpty()
    with os.fdopen(inner, "w") as terminal:
        column = LlrColumn(Calibration(1.0, 0.0, 0.0))
        heading = Heading("", "", "llr", 0.0, "", columns=(column,))
        Screen(heading, terminal, 8).show(Row(None, result))
        first, second = os.read(outer, 1000).decode().splitlines()
    os.close(outer)
    assert first == "call.wav      0.9441  \x1b[90mundecided \x1b[0m"
    assert second.strip() == CANNOT_TELL
