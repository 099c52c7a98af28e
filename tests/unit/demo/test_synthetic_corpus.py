import hashlib
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.demo import synthetic_corpus as demo_corpus
from asdf.demo.synthetic_corpus import ATTACKS, DEMO_SETS, MARK, DemoSet, make_demo_corpus
from asdf.demo.voices import draw_speaker, speak
from asdf.errors import AsdfError
from asdf.trials.lists import read_asvspoof2019_protocol, read_list

SMALL = (
    DemoSet("train", "train.trn", ("A01", "A02", "A03"), speakers=2, pairs=3),
    DemoSet("dev", "dev.trl", ("A01", "A02", "A03"), speakers=1, pairs=3),
    DemoSet("eval", "eval.trl", ("A01", "A02", "A03", "A04"), speakers=2, pairs=4),
)
DIGEST_OF_SMALL = "239358e66de723b0964a65a0f747c5d3432814c2e1f52fe1a9e6c0a258c4e213"
PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "demo"
    make_demo_corpus(folder, sets=SMALL)
    return folder


def rows(folder: Path, part: DemoSet) -> list[list[str]]:
    text = (folder / f"{PROTOCOLS}.{part.protocol}.txt").read_text(encoding="utf-8")
    return [line.split(" ") for line in text.splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    files = filter(Path.is_file, folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def draws_of(part: DemoSet) -> list[demo_corpus.Rendering]:
    rng = np.random.default_rng(0)
    return demo_corpus.draw_renderings(part.attacks, part.speakers, part.pairs, rng)


def auc(values: np.ndarray, bona_fide: np.ndarray) -> float:
    """How often a bona fide utterance has the larger value: 0.5 is chance."""
    wins = values[bona_fide][:, None] - values[~bona_fide][None]
    return float(np.mean((wins > 0) + 0.5 * (wins == 0)))


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(corpus, tmp_path):
    make_demo_corpus(tmp_path / "again", sets=SMALL)
    make_demo_corpus(tmp_path / "other", seed=1, sets=SMALL[:1])

    first, again, other = map(contents, (corpus, tmp_path / "again", tmp_path / "other"))
    assert first == again
    recordings = [name for name in other if name.endswith(".flac")]
    assert len(recordings) == 12 and first.keys() >= set(recordings)
    assert not any(first[name] == other[name] for name in recordings)


def test_the_samples_are_those_of_the_version_that_the_mark_states(corpus: Path) -> None:
    # Of the samples, not of the files: another libsndfile may pack them otherwise.
    digest = hashlib.sha256()
    for path in sorted(corpus.rglob("*.flac")):
        digest.update(soundfile.read(path, dtype="int16")[0].tobytes())
    assert demo_corpus.VERSION == 2
    assert digest.hexdigest() == DIGEST_OF_SMALL


def test_protocols_lists_and_files_agree(corpus: Path) -> None:
    for part in SMALL:
        lines = rows(corpus, part)
        audio = f"LA/ASVspoof2019_LA_{part.name}/flac"
        protocol = corpus / f"{PROTOCOLS}.{part.protocol}.txt"
        read = read_asvspoof2019_protocol(protocol, corpus, audio)
        assert list(read.ids) == list(read_list(corpus / f"{part.name}_list.txt", corpus).ids)
        assert {line[1] for line in lines} == {path.stem for path in (corpus / audio).iterdir()}
        listed = [f"{audio}/{row[1]}.flac {int(row[4] == 'bonafide')}" for row in lines]
        assert (corpus / f"{part.name}_list.txt").read_text(encoding="utf-8").splitlines() == listed
        for _, _, dash, attack, key in lines:
            assert (attack == "-") == (key == "bonafide") and dash == "-"
        counts = Counter(key for *_, key in lines)
        assert counts["bonafide"] == counts["spoof"] == part.speakers * part.pairs


def test_sets_share_no_speaker_no_utterance_and_no_audio(corpus: Path) -> None:
    speakers = [{row[0] for row in rows(corpus, part)} for part in SMALL]
    names = [{row[1] for row in rows(corpus, part)} for part in SMALL]
    assert [len(ids) for ids in speakers] == [2, 1, 2]
    assert len(set.union(*speakers)) == 5
    assert len(set.union(*names)) == sum(map(len, names)) == 12 + 6 + 16
    audio = [data for name, data in contents(corpus).items() if name.endswith(".flac")]
    assert len(set(audio)) == 34


@pytest.mark.parametrize("sets", [SMALL, DEMO_SETS])
def test_a_vocoder_is_heard_in_the_evaluation_set_only(sets: tuple[DemoSet, ...]) -> None:
    train, dev, evaluation = ({trial.attack for trial in draws_of(part)} - {"-"} for part in sets)
    assert train == dev == {"A01", "A02", "A03"}
    assert evaluation == {"A01", "A02", "A03", "A04"}


def test_recordings_are_short_mono_16_bit_flac_at_16_khz(corpus: Path) -> None:
    for path in corpus.rglob("*.flac"):
        info = soundfile.info(path)
        kind = (info.samplerate, info.channels, info.format, info.subtype)
        assert kind == (16000, 1, "FLAC", "PCM_16")
        assert 16000 <= info.frames <= 41600
        assert 0.0 < np.abs(soundfile.read(path)[0]).max() < 0.99


def test_levels_durations_floors_and_edges_say_nothing_of_the_class(tmp_path: Path) -> None:
    # A set of its own, large enough for areas under the curve: chance is 0.5 with a standard
    # deviation of 0.05.
    part = DemoSet("train", "train.trn", ("A01", "A02", "A03", "A04"), speakers=10, pairs=6)
    make_demo_corpus(tmp_path / "demo", sets=(part,))
    measures: dict[str, list[float]] = {}
    labels = []
    for _, name, _, attack, _ in rows(tmp_path / "demo", part):
        samples, _ = soundfile.read(tmp_path / f"demo/LA/ASVspoof2019_LA_train/flac/{name}.flac")
        frames = samples[: len(samples) // 160 * 160].reshape(-1, 160).std(axis=1) + 1e-9
        loud = np.flatnonzero(frames > 0.05 * frames.max())
        power = np.abs(np.fft.rfft(samples)) ** 2
        labels.append(attack == "-")
        for measure, value in {
            "level": samples.std(),
            "duration": len(samples),
            "zero crossings": np.mean(np.diff(np.sign(samples)) != 0),
            "noise floor": np.percentile(frames, 3) / samples.std(),
            "leading silence": loud[0],
            "trailing silence": len(frames) - loud[-1],
            "bandwidth": power[len(power) * 3 // 4 :].sum() / power.sum(),
            "offset": samples.mean(),
        }.items():
            measures.setdefault(measure, []).append(float(value))

    areas = {name: auc(np.array(values), np.array(labels)) for name, values in measures.items()}
    assert {name: value for name, value in areas.items() if not 0.37 < value < 0.63} == {}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_spoof_keeps_length_level_and_spectrum_but_not_the_peaks_of_its_voice(attack):
    rng = np.random.default_rng(3)
    voice = speak(draw_speaker(rng), 2.0, rng)
    spoof = ATTACKS[attack](voice, rng)

    assert spoof.shape == voice.shape == (32000,)
    assert 20 * np.log10(spoof.std() / voice.std()) == pytest.approx(0, abs=1)
    powers = [np.abs(np.fft.rfft(sound)) ** 2 for sound in (voice, spoof)]
    for low in (500, 1000, 2000, 4000, 8000):
        before, after = (power[low : 2 * low].sum() for power in powers)
        assert abs(10 * np.log10(after / before)) < 1.5
    assert abs(np.corrcoef(voice, spoof)[0, 1]) < 0.9
    closures = [np.diff(sound) / np.diff(sound).std() for sound in (voice, spoof)]
    assert np.mean(closures[0] ** 4) > 1.2 * np.mean(closures[1] ** 4)


def test_a_finished_corpus_is_left_as_it_is_and_another_one_replaces_it(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    sets = (DemoSet("train", "train.trn", ("A01",), speakers=1, pairs=1),)
    make_demo_corpus(folder, sets=sets)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    make_demo_corpus(folder, sets=sets)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before

    old = contents(folder)
    make_demo_corpus(folder, seed=1, sets=sets)
    assert "seed 1" in (folder / MARK).read_text(encoding="utf-8")
    assert contents(folder) != old
    assert names_in(tmp_path) == ["demo"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_making_leaves_nothing(error, tmp_path, monkeypatch):
    write = soundfile.write
    calls = iter(range(100))

    def failing(*args: object, **kwargs: object) -> None:
        if next(calls) == 3:
            raise error
        write(*args, **kwargs)

    monkeypatch.setattr(soundfile, "write", failing)
    with pytest.raises((KeyboardInterrupt, AsdfError)) as caught:
        make_demo_corpus(tmp_path / "demo", sets=SMALL)
    assert names_in(tmp_path) == []
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value)


def test_what_a_killed_making_left_is_cleared_away_after_an_hour(tmp_path: Path) -> None:
    for name, age_s in ((".demo.old.part", 4000), (".demo.fresh.part", 10)):
        (tmp_path / name).mkdir()
        then = (tmp_path / name).stat().st_mtime - age_s
        os.utime(tmp_path / name, (then, then))
    make_demo_corpus(tmp_path / "demo", sets=SMALL[1:2])
    assert names_in(tmp_path) == [".demo.fresh.part", "demo"]


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(AsdfError, match="holds other files"):
        make_demo_corpus(tmp_path, sets=SMALL)
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "mine"
    assert names_in(tmp_path) == ["thesis.txt"]


def test_its_making_is_seen_from_the_beginning(tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO", "asdf")
    monkeypatch.setattr("asdf.runs.log._FIRST_LINES_EVERY_S", 0.0)
    make_demo_corpus(tmp_path / "demo", sets=SMALL[1:2])
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == f"making the demo corpus, 6 utterances, in {tmp_path / 'demo'}"
    shown = [line.partition(",")[0] for line in lines[1:]]
    assert shown == [f"making the demo corpus: {done} of 6" for done in range(1, 6)]
    caplog.clear()
    make_demo_corpus(tmp_path / "demo", sets=SMALL[1:2])
    assert not caplog.records
