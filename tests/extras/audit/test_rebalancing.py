"""Lists that are rebalanced: no shortcut is left, and as much as possible of the recordings is."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.extras.audit.auditing import (
    Rebalanced,
    audit_recordings,
    choose_matches,
    places_of,
    rebalance,
)
from asdf.extras.audit.measuring import Measured
from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList
from tests.extras.audit.conftest import QUICK, RATE, voice

OPTIONS = replace(QUICK, limit=0.4, permutations=199)


def corpus(
    shift: float, count: int = 400, share: float = 0.5, seed: int = 0, name: str = "train"
) -> tuple[TrialList, list[Measured]]:
    """Spoofs are longer by `shift` deviations, and their level is that of bona fide recordings."""
    rng = np.random.default_rng(seed)
    labels = (rng.uniform(size=count) < share).astype(np.int8)
    measured = []
    for index, label in enumerate(labels):
        values: dict[str, float | str] = {
            "duration": float(rng.normal(0 if label else shift)),
            "level": float(rng.normal()),
            "format": str(rng.choice(["WAV", "FLAC"])),
        }
        measured.append(Measured(values, digest=f"{name}{index}"))
    numbers = rng.permutation(10**6)[:count]
    return TrialList([f"{number:06}.wav" for number in numbers], labels, name=name), measured


def rebalanced(*lists: tuple[TrialList, list[Measured]]) -> Rebalanced:
    trials = [one for one, _ in lists]
    measured = [one for _, one in lists]
    audit = audit_recordings(trials, measured, OPTIONS)
    return rebalance(trials, measured, audit, OPTIONS)


def values_of(result: Rebalanced, measured: list[Measured], key: str) -> tuple[list, list]:
    kept = result.kept[0]
    labels = result.lists[0].labels
    of_classes: list[list] = [[], []]
    for index in kept:
        of_classes[labels[index]].append(measured[index].values[key])
    return of_classes[0], of_classes[1]


def test_a_shortcut_is_gone_and_the_distributions_are_alike() -> None:
    trials, measured = corpus(1.2)
    result = rebalanced((trials, measured))
    assert result.features == ("duration",)
    assert not result.after.shortcuts
    spoof, bona_fide = values_of(result, measured, "duration")
    assert len(spoof) == len(bona_fide) >= 80
    # The largest distance of the distribution functions, of values the classes had 0.45 apart.
    at = np.sort(spoof + bona_fide)
    first = np.searchsorted(np.sort(spoof), at, side="right") / len(spoof)
    second = np.searchsorted(np.sort(bona_fide), at, side="right") / len(bona_fide)
    assert np.abs(first - second).max() < 0.12


def test_lists_are_matched_each_by_itself() -> None:
    train = corpus(1.2, name="train")
    dev = corpus(1.2, count=300, seed=4, name="dev")
    result = rebalanced(train, dev)
    assert not result.after.shortcuts
    for trials, kept in zip(result.lists, result.kept, strict=True):
        assert len(set(kept.tolist())) == len(kept) < len(trials)
        labels = trials.labels[kept]
        assert (labels == 1).sum() == (labels == 0).sum()


def test_the_class_with_more_keeps_several_matches_for_each() -> None:
    trials, measured = corpus(0.9, count=1500, share=0.12)
    result = rebalanced((trials, measured))
    labels = trials.labels[result.kept[0]]
    spoof, bona_fide = (labels == 0).sum(), (labels == 1).sum()
    assert spoof % bona_fide == 0
    assert spoof // bona_fide >= 2


def test_words_are_matched_exactly() -> None:
    trials, measured = corpus(0, count=600)
    for index, one in enumerate(measured):
        odds = 0.8 if trials.labels[index] else 0.2
        one.values["format"] = "WAV" if (index * 0.6180339) % 1 < odds else "FLAC"
    result = rebalanced((trials, measured))
    assert result.features == ("format",)
    spoof, bona_fide = values_of(result, measured, "format")
    assert spoof.count("WAV") == bona_fide.count("WAV")
    assert spoof.count("FLAC") == bona_fide.count("FLAC")


def test_the_same_lists_give_the_same_result() -> None:
    first, second = (rebalanced(corpus(1.2)).kept[0] for _ in range(2))
    assert first.tolist() == second.tolist()


def test_classes_that_do_not_overlap_are_refused() -> None:
    with pytest.raises(AsdfError, match="the classes hardly overlap"):
        rebalanced(corpus(9.0))


def test_places_are_middle_ranks_and_unknown_values_lie_apart() -> None:
    places = places_of([3.0, 1.0, 1.0, None, 2.0])
    assert places.tolist() == [0.875, 0.25, 0.25, -10.0, 0.625]
    words = places_of(["a", "b", None])
    assert len(set(words.tolist())) == 3
    assert np.abs(np.diff(np.sort(words))).min() > 1


def test_the_number_of_matches_keeps_most_recordings() -> None:
    order = np.array([0, 1, 2])
    matches = np.array([[10, 11, 12], [13, 14, -1]])
    # Three with one match are six, two with two matches are six: the first is taken.
    assert choose_matches(order, matches).tolist() == [0, 1, 2, 10, 11, 12]
    matches = np.array([[10, 11, 12], [13, 14, 15]])
    assert len(choose_matches(order, matches)) == 9


def write_recordings(folder: Path, count: int = 120) -> Path:
    """Write a list whose spoofs are quieter, but not all of them."""
    rng = np.random.default_rng(2)
    folder.mkdir()
    lines = []
    for index in range(count):
        label = index % 2
        loud = rng.normal(0, 6) - (0 if label else 8)
        samples = np.clip(0.3 * 10 ** (loud / 20) * voice(rng) / 0.1, -1, 1)
        name = f"{rng.integers(10**6):06}.flac"
        soundfile.write(folder / name, samples, RATE, subtype="PCM_16")
        lines.append(f"{name} {label}")
    path = folder / "list.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_command_writes_lists_that_are_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_recordings(tmp_path / "corpus")
    out = tmp_path / "balanced"
    page = tmp_path / "a.html"
    record = tmp_path / "a.json"
    words = ["audit", str(table), "--no-joint", "--replicates", "20", "--workers", "0"]
    words += ["--rebalance", str(out), "-o", str(page), "-o", str(record)]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "A new audit finds no shortcut." in shown
    assert "Rebalanced lists" in page.read_text(encoding="utf-8")
    known = json.loads(record.read_text(encoding="utf-8"))["rebalanced"]
    trials = read_list(out / "list.tsv", out, "list")
    assert len(trials) == known["lists"]["list"]["kept"]
    assert all(trials.path(index).exists() for index in range(len(trials)))
    again = ["audit", str(out / "list.tsv"), "--no-joint", "--replicates", "20", "--workers", "0"]
    assert main(again) == 0


def test_a_list_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_recordings(tmp_path / "corpus", count=4)
    table = table.rename(table.with_suffix(".tsv"))
    lines = [line.replace(" ", "\t") for line in table.read_text(encoding="utf-8").split("\n")]
    table.write_text("\n".join(["utterance\tlabel", *lines]), encoding="utf-8")
    before = table.read_bytes()
    assert main(["audit", str(table), "--rebalance", str(table.parent)]) != 0
    assert "would overwrite" in capsys.readouterr().err
    assert table.read_bytes() == before
