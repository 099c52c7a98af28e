"""Files of spoofed parts and of turns: RTTM, HAD, LlamaPartialSpoof, plain lines."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.segments import (
    MIN_STRETCH_S,
    Segment,
    Timed,
    read_reference,
    read_rttm,
    read_speakers,
    read_text,
    speakers_alone,
    spoofed_parts_of,
    write_rttm,
)
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList


def written(folder: Path, *lines: str) -> Path:
    path = folder / "parts"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def turn(name: str, start: object, duration: object, label: str) -> str:
    return f"SPEAKER {name} 1 {start} {duration} <NA> <NA> {label} <NA> <NA>"


def test_the_parts_of_an_rttm_are_those_that_are_spoofed(tmp_path):
    path = written(
        tmp_path,
        turn("CON_D_0000000", 0.0, 0.5, "bonafide"),
        turn("CON_D_0000000", 0.5, 0.25, "spoof"),
        turn("CON_D_0000000", 0.75, 0.25, "A03"),
        "SPEAKER CON_D_0000000 1 1.0 0.1 <NA> <NA> nonspeech <NA>",
        "SPEAKER LA_D_1000265 1   0.000   1.500 <NA> <NA> bonafide",
        ";; a comment",
        turn("CON_D_0000000", 1.1, 0.2, "spoof"),
        turn("CON_D_0000000", 1.3, 0.0, "spoof"),
    )
    expected = {
        "CON_D_0000000": Timed((Segment(0.5, 1.0), Segment(1.1, 1.3)), 1.3),
        "LA_D_1000265": Timed((), 1.5),
    }
    assert read_rttm(path) == expected
    (tmp_path / "parts.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_rttm(tmp_path / "parts.gz") == expected


def test_what_is_written_is_read_back(tmp_path):
    recordings = {
        "a": Timed((Segment(0.02, 0.06), Segment(0.1, 0.2)), 0.345),
        "b": Timed((), 2.0),
        "c d.wav": Timed((Segment(0.0, 1.5),), 1.5),
        "e f": Timed((), 3.0),
        "e_f": Timed((), 4.0),
    }
    path = tmp_path / "out.rttm"
    write_rttm(path, recordings)
    # A name with a space stays one column, and another's beside one with '_'.
    words = ("a", "b", "c_d.wav", "e%20f", "e_f")
    assert read_rttm(path) == dict(zip(words, recordings.values(), strict=True))
    assert path.read_text().splitlines()[:3] == [
        "SPEAKER a 1 0.000000 0.020000 <NA> <NA> bonafide <NA> <NA>",
        "SPEAKER a 1 0.020000 0.040000 <NA> <NA> spoof <NA> <NA>",
        "SPEAKER a 1 0.060000 0.040000 <NA> <NA> bonafide <NA> <NA>",
    ]


HAD = {
    "HAD_train_fake_00000001 0.00-1.43-T/1.43-2.02-F/2.02-4.03-T 0": ((1.43, 2.02), 4.03),
    "HAD_train_real_00000001 0.00-3.10-T 1": (None, 3.1),
    "HAD_train_fake_00000002 0.00-0.50-F/0.50-0.75-F/0.75-1.00-T 0": ((0, 0.75), 1.0),
}
LLAMA = {
    "dev-clean_1462_170145_000020_000002 0.9600 bonafide 0.0000-0.9600-bonafide": (None, 0.96),
    "dev01-yourtts-full_3000_15664 10.9930 spoof 0.0000-10.9930-spoof": ((0, 10.993), 10.993),
    "dev01-yourtts-partial-cf_8842_304647 1.9740 spoof 0.0000-0.8510-bonafide "
    "0.8510-1.1910-spoof 1.1910-1.9740-bonafide": ((0.851, 1.191), 1.974),
}


@pytest.mark.parametrize("lines", [HAD, LLAMA], ids=["had", "llama"])
def test_a_line_has_all_parts_of_a_recording(tmp_path, lines):
    expected = {
        line.split()[0]: Timed(() if part is None else (Segment(*part),), end_s)
        for line, (part, end_s) in lines.items()
    }
    assert read_text(written(tmp_path, *lines)) == expected


def test_plain_lines_are_a_part_each(tmp_path):
    path = written(
        tmp_path,
        "b call.wav 1.43 2.02 spoof",
        "b call.wav 0.00 1.43 bonafide",
        "a.wav 0 3.5 real",
        "b call.wav 2.02 2.5 A07",
    )
    expected = {"b call.wav": Timed((Segment(1.43, 2.5),), 2.5), "a.wav": Timed((), 3.5)}
    assert read_text(path) == expected
    reference = read_reference(path)
    assert reference.trials.columns["spoofed_s"] == ["1.43-2.5", "-"]
    assert reference.durations_s == {"b call.wav": 2.5, "a.wav": 3.5}


RTTM, TEXT, PLAIN = turn("a", 0, 1, "spoof"), "a 0.00-1.00-T 1", "a 0 1 bonafide"


@pytest.mark.parametrize(
    ("read", "first", "second", "reason"),
    [
        (read_rttm, RTTM, "SPEAKER a 1 0 1 <NA> <NA>", "expected 'SPEAKER NAME"),
        (read_rttm, RTTM, "LA_0001 a - - bonafide", "expected 'SPEAKER NAME"),
        (read_rttm, RTTM, turn("a", 0, 1, "music"), "the label 'music'"),
        (read_rttm, RTTM, turn("a", 0, -1, "spoof"), "from 0 to -1 s"),
        (read_rttm, RTTM, turn("a", "x", 1, "spoof"), "from nan to nan s"),
        (read_rttm, RTTM, turn("a", 0, "inf", "spoof"), "from 0 to inf s"),
        (read_text, TEXT, "b 0.00-1.00-X 0", "the label 'X'"),
        (read_text, TEXT, "b 0.00-T 1", "from 0 to nan s"),
        (read_text, TEXT, "b 1.00-0.50-T 1", "from 1 to 0.5 s"),
        (read_text, TEXT, "b 0.00-1.00-T 0", "'b' is spoof, but none of its parts"),
        (read_text, TEXT, "b 1.0 bonafide 0.0-1.0-spoof", "'b' is bona fide, but one of its"),
        (read_text, TEXT, "b 0.00-1.00-T 2", r"0\|1' \(HAD\)"),
        (read_text, TEXT, "b spoof", r"0\|1' \(HAD\)"),
        (read_text, TEXT, "b 1.0 spoof", r"0\|1' \(HAD\)"),
        (read_text, TEXT, "a 0.00-1.00-T 1", "'a' is repeated"),
        (read_text, PLAIN, "b 0 1 odd", "the label 'odd'"),
        (read_text, PLAIN, "b 1 0.5 spoof", "from 1 to 0.5 s"),
        (read_text, PLAIN, "b 0 1_0 spoof", "expected 'NAME START END LABEL'"),
        (read_text, PLAIN, "b 0 spoof", "expected 'NAME START END LABEL'"),
        (read_speakers, RTTM, "SPEAKER call 1 0.0 1.0 <NA> <NA>", "expected 'SPEAKER NAME CH"),
        (read_speakers, RTTM, "LEXEME" + turn("call", 0, 1, "bob")[7:], "expected 'SPEAKER"),
        (read_speakers, RTTM, turn("call", "x", 1, "bob"), "a turn of 'bob' from nan s"),
        (read_speakers, RTTM, turn("call", 1, 0, "bob"), "from 1 s to 1 s"),
        (read_speakers, RTTM, turn("call", -1, 2, "bob"), "from -1 s"),
        (read_speakers, RTTM, turn("call", 1, 2, "<NA>"), "5 and 8 are start, duration and"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path, read, first, second, reason):
    with pytest.raises(AsdfError, match=f"line 2: .*{reason}"):
        read(written(tmp_path, first, second))


def test_every_file_of_spoofed_parts_is_a_reference(tmp_path):
    parts = (Segment(0.16, 0.48),)
    table = TrialList(
        ["x/a.flac", "b"], np.array([0, 1]), columns={"spoofed_s": ["0.16-0.48", "-"]}
    )
    write_trials(tmp_path / "trials.tsv", table)
    write_rttm(tmp_path / "rttm", {"a": Timed(parts, 0.64), "b": Timed((), 1.0)})
    (tmp_path / "had.txt").write_text("a 0-0.16-T/0.16-0.48-F/0.48-0.64-T 0\nb 0-1-T 1\n")
    arrays = {"a": np.array(["1", "0", "0", "1"]), "b": np.array(["1"] * 7)}
    np.save(tmp_path / "x_seglab_0.16.npy", arrays, allow_pickle=True)
    durations_s = {}
    for name in ("trials.tsv", "rttm", "had.txt", "x_seglab_0.16.npy"):
        reference = read_reference(tmp_path / name)
        assert spoofed_parts_of(reference.trials) == [parts, ()]
        assert reference.trials.index_of("other/a.flac") == 0
        durations_s[name] = dict(reference.durations_s)
    assert durations_s == {
        "trials.tsv": {},
        "rttm": {"a": 0.64, "b": 1.0},
        "had.txt": {"a": 0.64, "b": 1.0},
        "x_seglab_0.16.npy": {"a": 0.64, "b": 1.12},
    }


def test_speakers_by_recording_in_the_order_of_their_first_turns(tmp_path):
    path = written(
        tmp_path,
        turn("call", 0.0, 3.0, "bob"),
        turn("call", 2.5, 2.0, "ann"),
        turn("other", 0.0, 1.0, "bob"),
        turn("call", 6.0, 1.0, "bob"),
    )
    speakers = read_speakers(path)
    assert list(speakers) == ["call", "other"]
    bob, ann = speakers["call"]
    assert bob.name == "bob" and bob.alone == (Segment(0.0, 2.5), Segment(6.0, 7.0))
    assert bob.overlapped_s == pytest.approx(0.5)
    assert ann.alone == (Segment(3.0, 4.5),) and ann.end_s == 4.5
    with pytest.raises(AsdfError, match="no speaker turns found"):
        read_speakers(written(tmp_path, ";; nothing"))


def test_nobody_else_speaks_in_a_stretch():
    """Against frames of 10 ms that are counted one by one."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        turns = {}
        frames = {}
        for speaker in "abc"[: rng.integers(1, 4)]:
            starts = rng.integers(0, 900, 6)
            ends = starts + rng.integers(1, 120, 6)
            spans = np.stack([starts, ends], axis=1) / 100
            turns[speaker] = [Segment(*span) for span in spans.tolist()]
            frames[speaker] = np.zeros(1100, bool)
            for start, end in zip(starts, ends, strict=True):
                frames[speaker][start:end] = True
        for known in speakers_alone(turns):
            others = [own for name, own in frames.items() if name != known.name]
            busy = np.any(others, axis=0) if others else np.zeros(1100, bool)
            alone = frames[known.name] & ~busy
            edges = np.flatnonzero(np.diff(np.r_[0, alone.astype(int), 0]))
            runs = edges.reshape(-1, 2)
            long = runs[runs[:, 1] - runs[:, 0] >= 100 * MIN_STRETCH_S] / 100
            assert len(known.alone) == len(long)
            found = np.reshape(known.alone, (-1, 2))
            np.testing.assert_allclose(found, long, atol=1e-9)
            overlapped = (frames[known.name] & busy).sum() / 100
            assert known.overlapped_s == pytest.approx(overlapped)
