"""Copies, splits, languages, labels and bad files."""

import io
import json
from dataclasses import asdict, replace

import numpy as np
import soundfile

from asdf.extras.audit.auditing import Audit, Result, Row, audit_recordings, contradicted_labels
from asdf.extras.audit.detectors import TIE, make_folds, score_feature, separate
from asdf.extras.audit.measuring import FEATURES, Measured, fingerprint, measure, same_recordings
from asdf.extras.audit.showing import audit_page, audit_record, audit_text
from asdf.trials.trial_list import TrialList
from tests.extras.audit.conftest import QUICK, RATE, voice


def audit_of(*lists: tuple[TrialList, list[Measured]]) -> Audit:
    trials = [one for one, _ in lists]
    measured = [one for _, one in lists]
    return audit_recordings(trials, measured, QUICK)


def simple_list(
    name: str, count: int = 40, **columns: list[str]
) -> tuple[TrialList, list[Measured]]:
    rng = np.random.default_rng(len(name))
    labels = np.arange(count) % 2
    measured = [Measured({"level": rng.normal()}, digest=f"{name}{i}") for i in range(count)]
    ids = [f"{name}{rng.integers(10**9)}.wav" for _ in range(count)]
    return TrialList(ids, labels, columns=columns, name=name), measured


def titles(audit: Audit) -> list[str]:
    return [group.title for group in audit.groups]


def test_the_same_sound_is_known_again_at_another_level_start_and_codec() -> None:
    rng = np.random.default_rng(0)
    first = voice(rng).astype(np.float32)
    others = [voice(rng).astype(np.float32) for _ in range(6)]
    quiet = 0.2 * first
    late = np.concatenate([np.zeros(3001, np.float32), first[700:]])
    memory = io.BytesIO()
    soundfile.write(memory, first, RATE, format="MP3", compression_level=0.9)
    memory.seek(0)
    coded, _ = soundfile.read(memory, dtype="float32")
    prints = [fingerprint(sound) for sound in (first, quiet, late, coded, *others)]
    pairs = set(same_recordings(prints))
    assert {(0, 1), (0, 2), (0, 3)} <= pairs
    assert all(max(pair) < 4 for pair in pairs)


def test_silence_and_short_sounds_have_no_fingerprint() -> None:
    assert len(fingerprint(np.zeros(RATE, np.float32))) == 0
    assert len(fingerprint(np.ones(100, np.float32))) == 0


def test_copies_are_told_apart_by_labels_and_splits() -> None:
    train, in_train = simple_list("train")
    dev, in_dev = simple_list("dev")
    in_train[2] = Measured(in_train[2].values, digest=in_train[4].digest)
    in_train[6] = Measured(in_train[6].values, digest=in_train[7].digest)
    in_dev[0] = Measured(in_dev[0].values, digest=in_train[8].digest)
    audit = audit_of((train, in_train), (dev, in_dev))
    assert titles(audit) == [
        "pairs of one recording under both labels",
        "pairs of one recording in two splits",
        "pairs of one recording under two names",
    ]
    pair = f"train: {train.ids[8]} and dev: {dev.ids[0]}: the same samples"
    assert audit.groups[1].members == [pair]
    assert f"\npairs of one recording in two splits (1):\n    {pair}\n" in audit_text(audit)


def test_speakers_and_texts_of_two_splits_are_named() -> None:
    count = 40
    train = simple_list("train", speaker=["anna", "ben"] * 20, text=["one"] * count)
    dev = simple_list("dev", speaker=["ben", "cleo"] * 20, text=["two"] * count)
    audit = audit_of(train, dev)
    assert titles(audit) == ["speakers in more than one split"]
    assert audit.groups[0].members == ["ben: train, dev"]


def test_an_attack_of_one_language_is_named() -> None:
    attacks = ["A01", "-", "A02", "-"] * 10
    languages = ["en", "en", "fr", "fr"] * 10
    languages[4] = "fr"
    audit = audit_of(simple_list("one", attack=attacks, language=languages))
    assert [group.members for group in audit.groups if "language" in group.title] == [["A02: fr"]]


def test_a_label_that_most_shortcuts_contradict_is_named() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    shown = labels.copy()
    shown[10] = 1 - shown[10]
    measured = []
    for index, label in enumerate(shown):
        names = ("level", "peak", "duration", "noise_floor")
        values = {name: float(4 * label + rng.normal()) for name in names}
        measured.append(Measured(values, digest=str(index)))
    ids = [f"{rng.integers(10**9)}.wav" for _ in labels]
    audit = audit_of((TrialList(ids, labels, name="one"), measured))
    (group,) = [group for group in audit.groups if "contradict" in group.title]
    assert group.members[0] == f"one: {ids[10]}: spoof, against 4 of 4 detectors"


def test_a_detector_that_knows_nothing_of_a_recording_does_not_contradict_its_label() -> None:
    labels = np.arange(80) % 2 == 1
    folds = make_folds(list(map(str, range(80))))
    results = []
    for key in ("format", "sample_rate", "bits"):
        words = ["a" if label else "b" for label in labels]
        # Nobody else has the word of this spoof, but for one feature, where it looks bona fide.
        words[10] = "a" if key == "bits" else "x"
        scores = score_feature(words, labels, folds)
        separation = separate(scores, labels, None, 20)
        results.append(Result(FEATURES[key], separation, 0.001, True, words))
    assert all(0 < result.separation.scores[10] <= TIE for result in results[:2])
    assert results[2].separation.scores[10] > np.log(10)
    rows = []
    for index, label in enumerate(labels):
        rows.append(Row("one", str(index), int(label), {}, {}, Measured()))
    assert contradicted_labels(results, labels, rows) == []
    everywhere = [replace(result, separation=results[2].separation) for result in results]
    (group,) = contradicted_labels(everywhere, labels, rows)
    assert group.members == ["one: 10: spoof, against 3 of 3 detectors"]


def test_damaged_silent_and_short_files_are_named(tmp_path) -> None:
    samples = voice(np.random.default_rng(0))
    whole = tmp_path / "whole.flac"
    soundfile.write(whole, samples, RATE)
    damaged = tmp_path / "damaged.flac"
    damaged.write_bytes(whole.read_bytes()[:3000])
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    soundfile.write(tmp_path / "short.wav", samples[5000:8000], RATE)
    assert measure(str(whole)).problem == ""
    assert not measure(str(damaged)).is_read
    assert measure(str(tmp_path / "silent.wav")).problem.startswith("it is silent")
    assert measure(str(tmp_path / "short.wav")).problem == "it is short: 0.19 s."
    assert not measure(str(tmp_path / "missing.wav")).is_read


def test_what_is_measured_is_what_the_recording_has(tmp_path) -> None:
    rng = np.random.default_rng(0)
    tone = 0.25 * np.sin(2 * np.pi * 440 * np.arange(2 * RATE) / RATE)
    silence = np.zeros(RATE // 2)
    samples = np.concatenate([silence, tone, silence[: RATE // 4]]) + rng.normal(0, 1e-5, 44_000)
    soundfile.write(tmp_path / "tone.wav", samples + 0.01, RATE, subtype="PCM_16")
    values = measure(str(tmp_path / "tone.wav")).values
    assert values["duration"] == 2.75
    assert values["leading_silence"] == 0.5
    assert values["trailing_silence"] == 0.25
    assert abs(values["level"] - 20 * np.log10(0.25 / 2**0.5)) < 0.1
    assert abs(values["peak"] - 20 * np.log10(0.26)) < 0.1
    assert abs(values["offset"] - 0.01) < 1e-4
    assert values["format"] == "WAV PCM_16"
    assert values["bits"] == "16"
    assert values["sample_rate"] == "16000 Hz"


def test_what_was_measured_comes_back_from_json() -> None:
    measured = Measured({"level": -20.5, "format": "WAV PCM_16"}, "ab", "AAE=", "short")
    assert Measured(**json.loads(json.dumps(asdict(measured)))) == measured
    assert measured.fingerprint.tolist() == [256]


def test_outputs_say_what_was_found_and_what_to_do() -> None:
    count = 60
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 2
    measured = []
    for index, label in enumerate(labels):
        values = {"leading_silence": float(label + 0.1 * rng.normal()), "level": rng.normal()}
        measured.append(Measured(values, digest=str(index)))
    ids = [f"</script><b>{rng.integers(10**9)}.wav" for _ in labels]
    trials = TrialList(ids, labels, name="asvspoof19-train")
    audit = audit_recordings([trials], [measured], QUICK)
    text = audit_text(audit)
    assert "shortcut: leading silence alone has an EER of 0.00 %" in text
    assert "-> Trim the silence around speech in all sets." in text
    assert "sad.mode = 'endpoint'" in text
    record = audit_record(audit)
    (first, second) = record["features"]
    assert first["feature"] == "leading_silence"
    assert first["is_shortcut"]
    assert first["eer"] == 0.0
    assert not second["is_shortcut"]
    page = audit_page(audit, ["ASDF 0"])
    assert page == audit_page(audit, ["ASDF 0"])
    assert "# Against these shortcuts, in a config:\nsad.mode = &#39;endpoint&#39;" in page
    assert "(labels permuted; Holm)" in text and "blocks" not in text
    assert "<b>" not in page.split("<script", 1)[0]
