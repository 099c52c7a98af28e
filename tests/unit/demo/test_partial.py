"""The partially spoofed recordings of the demo corpus."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.demo import DemoSet, PartialSet, make_demo_corpus, make_partial_demo
from asdf.demo import partial as demo_partial
from asdf.demo.synthetic_corpus import MARK, Rendering
from asdf.demo.voices import draw_speaker, speak
from asdf.errors import AsdfError
from asdf.segments import Timed, read_rttm, spoofed_parts_of
from asdf.trials.lists import check_files, read_list

MAIN = (DemoSet("dev", "dev.trl", ("A01", "A02", "A03"), speakers=1, pairs=1),)
SETS = (
    PartialSet("train", ("A01", "A02", "A03"), speakers=1, pairs=3),
    PartialSet("eval", ("A04",), speakers=1, pairs=2),
)
DIGEST = "accac40ab7593248c870760fe33568c097f7c1d95f62a15799a143af5013f737"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "demo"
    make_demo_corpus(folder, sets=MAIN)
    make_partial_demo(folder, sets=SETS)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_samples_are_those_of_the_version_that_the_mark_states(corpus: Path) -> None:
    # Of the samples, not of the files: another libsndfile may pack them otherwise.
    digest = hashlib.sha256()
    for path in sorted((corpus / "partial").rglob("*.flac")):
        digest.update(soundfile.read(path, dtype="int16")[0].tobytes())
    assert demo_partial.VERSION == 1
    assert digest.hexdigest() == DIGEST


def test_the_corpus_itself_stays_as_it_is(corpus: Path, tmp_path: Path) -> None:
    make_demo_corpus(tmp_path / "alone", sets=MAIN)
    files = contents(corpus)
    alone = contents(tmp_path / "alone")
    assert {name: files[name] for name in files if not name.startswith("partial/")} == alone
    # Nor does it make itself again because of what lies in it.
    before = (corpus / MARK).stat().st_mtime_ns
    make_demo_corpus(corpus, sets=MAIN)
    make_partial_demo(corpus, sets=SETS)
    assert (corpus / MARK).stat().st_mtime_ns == before
    assert contents(corpus) == files


def test_lists_have_the_spoofed_parts_and_the_rttm_has_the_same(corpus: Path) -> None:
    trials = read_list(corpus / "partial" / "train_list.tsv", corpus, "demo-partial-train")
    check_files([trials])
    assert len(trials) == 6 and trials.labels.sum() == 3
    assert set(trials.columns) == {"speaker", "attack", "spoofed_s"}
    assert sorted(trials.columns["attack"]) == ["-", "-", "-", "A01", "A02", "A03"]
    expected = {}
    for index, parts in enumerate(spoofed_parts_of(trials)):
        path = trials.path(index)
        seconds = soundfile.info(path).duration
        assert 1.6 <= seconds <= 3.2
        assert bool(parts) == (trials.labels[index] == 0)
        for part in parts:
            assert 0.15 <= part.duration_s <= 0.8 and part.end_s <= seconds
        expected[path.stem] = Timed(parts, seconds)
    marked = read_rttm(corpus / "partial" / "train.rttm")
    assert marked.keys() == expected.keys()
    for name, timed in expected.items():
        assert marked[name].end_s == pytest.approx(timed.end_s, abs=1e-5)
        assert np.ravel(marked[name].spoofed) == pytest.approx(np.ravel(timed.spoofed), abs=2e-6)


def test_only_the_spoofed_parts_differ_from_the_voice() -> None:
    key = (0, 10)
    rng = np.random.default_rng([*key, 0, 10])
    recording = Rendering(0, 9, "A02")
    # Before the recorder, the sound outside the parts is the voice, sample by sample.
    spliced, spoofed = demo_partial._speak_in_parts(recording, key, rng)
    rng = np.random.default_rng([*key, 0, 10])
    speaker = draw_speaker(np.random.default_rng([*key, 0]))
    voice = speak(speaker, rng.uniform(1.6, 3.2), rng)
    is_spoofed = np.zeros(len(voice), bool)
    for start_s, end_s in spoofed:
        start, end = round(start_s * 16000), round(end_s * 16000)
        is_spoofed[start:end] = True
        # The level of a part is that of what it replaces, its fades apart.
        level = np.sqrt(np.mean(spliced[start:end] ** 2) / np.mean(voice[start:end] ** 2))
        assert 0.8 < level < 1.2
        # It fades in and out, unless it begins or ends the recording.
        change = np.abs(spliced - voice) / voice[start:end].std()
        assert start == 0 or change[start] < 0.05
        assert end == len(voice) or change[end - 1] < 0.05
    assert np.array_equal(spliced[~is_spoofed], voice[~is_spoofed])
    assert (spliced[is_spoofed] != voice[is_spoofed]).mean() > 0.99


def test_parts_lie_apart_in_the_recording() -> None:
    rng = np.random.default_rng(0)
    counts = []
    begins = 0
    for _ in range(300):
        samples = int(rng.integers(round(1.6 * 16000), round(3.2 * 16000)))
        parts = demo_partial._draw_parts(samples, rng)
        counts.append(len(parts))
        begins += parts[0][0] == 0
        bounds = np.ravel(parts)
        assert (np.diff(bounds) > 0).all() and bounds[0] >= 0 and bounds[-1] <= samples
    assert set(counts) == {1, 2, 3}
    assert 10 < begins < 80


@pytest.mark.slow
def test_the_corpus_is_made_where_there_is_none(tmp_path: Path, monkeypatch) -> None:
    made = []
    monkeypatch.setattr(
        demo_partial, "make_demo_corpus", lambda folder, seed: made.append((folder, seed))
    )
    make_partial_demo(tmp_path / "demo", seed=3, sets=SETS[1:])
    assert made == [(tmp_path / "demo", 3)]
    assert (tmp_path / "demo" / "partial" / "eval_list.tsv").is_file()


def test_other_files_in_the_folder_are_left_alone(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "demo" / "partial").mkdir(parents=True)
    (tmp_path / "demo" / MARK).write_text((corpus / MARK).read_text())
    (tmp_path / "demo" / "partial" / "thesis.tex").write_text("text")
    with pytest.raises(AsdfError, match="partial is in the way of the partially spoofed"):
        make_partial_demo(tmp_path / "demo", sets=SETS)


def test_parts_fade_except_at_the_edges_of_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [(0, 4000), (8000, 12000), (14000, 16000)]
    monkeypatch.setattr(demo_partial, "speak", lambda *_: np.ones(16000))
    monkeypatch.setattr(demo_partial, "_draw_parts", lambda *_: ranges)
    monkeypatch.setitem(demo_partial.ATTACKS, "A01", lambda sound, _: -sound)
    recording = Rendering(0, 0, "A01")
    sound, _ = demo_partial._speak_in_parts(recording, (0, 0), np.random.default_rng(0))
    edges = [sound[index] for start, end in ranges for index in (start, end - 1)]
    assert edges == pytest.approx([-1, 1, 1, 1, 1, -1], abs=0.02)
