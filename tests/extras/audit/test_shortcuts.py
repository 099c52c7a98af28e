"""An audit finds a shortcut that was planted, and nothing in a corpus that has none."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.extras.audit.auditing import Audit, audit_recordings
from asdf.extras.audit.measuring import measure_all
from asdf.extras.audit.showing import audit_text
from asdf.trials.lists import read_list
from tests.extras.audit.conftest import QUICK, RATE, voice, write_corpus


def audit_of(*tables: Path, joint: bool = False) -> Audit:
    lists = [read_list(table, table.parent, table.parent.name) for table in tables]
    measured = []
    for trials in lists:
        paths = [str(trials.path(index)) for index in range(len(trials))]
        measured.append([one for _, one in measure_all(paths, 0)])
    return audit_recordings(lists, measured, replace(QUICK, joint=joint))


def found(audit: Audit) -> set[str]:
    return {result.feature.key for result in audit.shortcuts}


def lowpassed(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    spectrum = np.fft.rfft(samples)
    spectrum[round(len(spectrum) * 4000 / (RATE / 2)) :] = 0
    return np.fft.irfft(spectrum, len(samples))


def trimmed(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return samples[loud[0] : loud[-1]]


CHANGES = {
    "leading_silence": trimmed,
    "trailing_silence": trimmed,
    "duration": lambda samples, rng: samples[: len(samples) // 2],
    "pauses": lambda samples, rng: samples[np.abs(samples) > 0.004],
    "level": lambda samples, rng: 0.1 * samples,
    "peak": lambda samples, rng: 2 * samples,
    "noise_floor": lambda samples, rng: samples + rng.normal(0, 5e-3, len(samples)),
    "clipping": lambda samples, rng: np.clip(8 * samples, -1, 0.99997),
    "offset": lambda samples, rng: samples + 0.01,
    "zeros": lambda samples, rng: np.where(np.abs(samples) < 1e-3, 0, samples),
    "bandwidth": lowpassed,
    "rate_history": lowpassed,
    "bits": lambda samples, rng: np.round(samples * 2**11) / 2**11,
}


@pytest.mark.slow_but("level")
@pytest.mark.parametrize("key", CHANGES)
def test_a_planted_shortcut_is_found(tmp_path, key) -> None:
    audit = audit_of(write_corpus(tmp_path / "corpus", CHANGES[key]))
    assert key in found(audit)
    (result,) = [result for result in audit.results if result.feature.key == key]
    assert result.separation.eer.value < 0.2
    assert result.feature.advice


def as_mp3(path: Path, samples: np.ndarray) -> None:
    memory = io.BytesIO()
    soundfile.write(memory, samples, RATE, format="MP3", compression_level=0.9)
    memory.seek(0)
    decoded, _ = soundfile.read(memory)
    soundfile.write(path, decoded, RATE, subtype="PCM_16")


def as_wav(path: Path, samples: np.ndarray) -> None:
    with path.open("wb") as file:
        soundfile.write(file, samples, RATE, format="WAV", subtype="PCM_16")


def at_another_rate(path: Path, samples: np.ndarray) -> None:
    soundfile.write(path, samples, 22_050, subtype="PCM_16")


def in_stereo(path: Path, samples: np.ndarray) -> None:
    soundfile.write(path, np.stack([samples, samples], axis=1), RATE, subtype="PCM_16")


def with_tags(path: Path, samples: np.ndarray) -> None:
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
        file.title = "made by a vocoder"
        file.write(samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "write"),
    [({"holes"}, as_mp3), ({"format", "byte_rate"}, as_wav), ({"sample_rate"}, at_another_rate)],
)
def test_what_another_program_has_written_is_found(tmp_path, keys, write) -> None:
    assert keys <= found(audit_of(write_corpus(tmp_path / "corpus", write=write)))


def test_holes_and_bits_are_those_of_the_samples(tmp_path) -> None:
    samples = voice(np.random.default_rng(0))
    paths = [tmp_path / name for name in ("plain.wav", "decoded.wav", "rounded.wav")]
    as_wav(paths[0], samples)
    as_mp3(paths[1], samples)
    as_wav(paths[2], np.round(samples * 2**11) / 2**11)
    plain, decoded, rounded = (one.values for _, one in measure_all(map(str, paths), 0))
    assert plain["holes"] < 0.01 < decoded["holes"] < 0.9
    assert int(plain["bits"]) == int(rounded["bits"]) + 4


def test_tags_and_names_are_found_and_do_not_count(tmp_path) -> None:
    table = write_corpus(tmp_path / "corpus", write=with_tags)
    lines = table.read_text().splitlines()
    for number, line in enumerate(lines[1:], 1):
        name, label, speaker = line.split("\t")
        folder = "real" if label == "1" else "fake"
        new = f"{folder}/{name}"
        (table.parent / folder).mkdir(exist_ok=True)
        (table.parent / name).rename(table.parent / new)
        lines[number] = "\t".join([new, label, speaker])
    table.write_text("\n".join(lines) + "\n")
    audit = audit_of(table)
    unheard = {result.feature.key for result in audit.unheard if result.is_shortcut}
    assert unheard == {"tags", "folder"}
    assert audit.is_clean


def test_a_column_that_tells_the_label_is_found_next_to_what_a_program_has_written(
    tmp_path,
) -> None:
    table = write_corpus(tmp_path / "corpus", write=in_stereo)
    lines = [line.split("\t") for line in table.read_text().splitlines()]
    text = "\n".join("\t".join([*line, "fr" if line[1] == "0" else "en"]) for line in lines[1:])
    table.write_text("utterance\tlabel\tspeaker\tlanguage\n" + text + "\n")
    assert found(audit_of(table)) == {"language", "channels"}


@pytest.mark.slow
def test_all_together_find_what_none_finds_alone(tmp_path) -> None:
    """A spoof is loud and long or quiet and short; each by itself says nothing."""

    def change(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return samples

    table = write_corpus(tmp_path / "corpus", change, count=160)
    rng = np.random.default_rng(1)
    for line in table.read_text().splitlines()[1:]:
        name, label, _ = line.split("\t")
        samples, _ = soundfile.read(table.parent / name)
        is_loud = rng.uniform() < 0.5
        is_long = is_loud == (label == "0")
        samples = samples * (2 if is_loud else 0.5)
        part = samples if is_long else samples[: len(samples) // 2]
        soundfile.write(table.parent / name, part, RATE, subtype="PCM_16")
    audit = audit_of(table, joint=True)
    assert found(audit) == {"all"}
    assert audit.results[0].separation.eer.value < 0.1
    assert "shortcut: all that a network hears has an EER of" in audit_text(audit)


def test_a_clean_corpus_has_no_finding(tmp_path) -> None:
    audit = audit_of(write_corpus(tmp_path / "corpus", seed=5), joint=True)
    assert audit.is_clean
    assert audit.speakers == 10
    assert audit.counts == (60, 30, 30)
