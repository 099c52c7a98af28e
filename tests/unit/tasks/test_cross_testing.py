"""Cross-tests against EERs that are counted out by hand, and replicates that are written out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve, into_blocks
from asdf.metrics.replicates import weighted_eers
from asdf.tasks.cross_testing.cross_test import cross_test
from asdf.tasks.cross_testing.cross_test_tables import (
    cross_test_csv,
    cross_test_json,
    cross_test_latex,
    cross_test_table,
    cross_test_text,
    remarks,
)
from asdf.trials.score_file import Scores


def plain_eer(bona_fide: np.ndarray, spoof: np.ndarray) -> float:
    """Count errors at every threshold; no score is shared by the classes."""
    best = (2.0, 0.0)
    for threshold in [*np.sort(np.concatenate([bona_fide, spoof])), np.inf]:
        frr = np.mean(bona_fide < threshold)
        far = np.mean(spoof >= threshold)
        best = min(best, (abs(frr - far), (frr + far) / 2))
    return float(best[1])


def make(seed: int = 0, trials: int = 40) -> tuple[Scores, dict[str, list[str]]]:
    rng = np.random.default_rng(seed)
    values: list[float] = []
    labels: list[int] = []
    columns: dict[str, list[str]] = {"attack": [], "speech": []}
    for speech, mean in (("read", 2.0), ("phone", 1.0), ("song", 0.5)):
        values += rng.normal(mean, 1, trials).tolist()
        labels += [1] * trials
        columns["attack"] += ["-"] * trials
        columns["speech"] += [speech] * trials
    for attack, mean in (("A1", -1.0), ("A2", 0.2)):
        values += rng.normal(mean, 1, trials).tolist()
        labels += [0] * trials
        columns["attack"] += [attack] * trials
        columns["speech"] += [""] * trials
    ids = [str(index) for index in range(len(values))]
    return Scores(ids, np.array(labels, np.int8), np.array(values)), columns


def test_every_pair_has_the_eer_of_its_own_trials() -> None:
    scores, columns = make()
    result = cross_test(scores, columns, ("attack", "speech"), replicates=0)
    speech = np.array(columns["speech"])
    attack = np.array(columns["attack"])
    assert [known.name for known in result.genuine] == ["phone", "read", "song"]
    expected = np.zeros((2, 3))
    for row, name in enumerate(("A1", "A2")):
        for column, kind in enumerate(("phone", "read", "song")):
            expected[row, column] = plain_eer(
                scores.scores[speech == kind], scores.scores[attack == name]
            )
            assert result.pairs[row][column].eer.value == pytest.approx(expected[row, column])
    assert result.overall.mean.value == pytest.approx(expected.mean())
    assert result.overall.highest.value == pytest.approx(expected.max())
    assert result.by_spoof[0].highest.value == pytest.approx(expected[0].max())
    assert result.by_spoof[1].mean.value == pytest.approx(expected[1].mean())
    assert result.by_genuine[2].highest.value == pytest.approx(expected[:, 2].max())
    assert result.by_genuine[2].mean.value == pytest.approx(expected[:, 2].mean())
    assert result.mean_of_highest.value == pytest.approx(expected.max(axis=0).mean())
    assert result.over == ""


def test_weighted_eers_are_those_of_trials_written_out() -> None:
    rng = np.random.default_rng(3)
    bona_fide = rng.normal(1, 1, 30)
    spoof = rng.normal(0, 1, 20)
    times = (rng.integers(0, 3, (50, 30)), rng.integers(0, 3, (50, 20)))
    blocks = into_blocks(DetCurve.of(bona_fide, spoof))
    drawn = weighted_eers(blocks, *times)
    for row in range(50):
        written = DetCurve.of(np.repeat(bona_fide, times[0][row]), np.repeat(spoof, times[1][row]))
        assert drawn[row] == written.eer()[0]


def test_intervals_hold_their_values_and_shrink_with_trials() -> None:
    widths = []
    for trials in (40, 400):
        scores, columns = make(1, trials)
        result = cross_test(scores, columns, ("attack", "speech"), replicates=300)
        for extent in (*result.by_spoof, *result.by_genuine, result.overall):
            for interval in (extent.highest, extent.mean):
                assert interval.low <= interval.value <= interval.high
        widths.append(result.overall.mean.high - result.overall.mean.low)
    # Ten times the trials: about sqrt(10) = 3.2 times narrower.
    assert 2.2 < widths[0] / widths[1] < 4.5


def test_the_mean_varies_as_pairs_that_share_a_set_do() -> None:
    """With one set of spoofs in all pairs the mean varies hardly less than one pair does."""
    scores, columns = make(2, 60)
    columns["attack"] = ["A" if name != "-" else "-" for name in columns["attack"]]
    result = cross_test(scores, columns, ("attack", "speech"), replicates=500)
    single = [pair.eer.high - pair.eer.low for pair in result.all_pairs]
    shared = result.overall.mean.high - result.overall.mean.low
    # Of independent pairs it would be narrower by sqrt(3).
    assert shared > np.mean(single) / np.sqrt(3)


def test_the_interval_of_the_highest_allows_for_its_luck() -> None:
    """Equal pairs: the highest EER lies above the truth, and its interval must reach down to it."""
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        values = np.concatenate([rng.normal(1, 1, 8 * 50), rng.normal(-1, 1, 50)])
        labels = np.repeat([1, 0], [400, 50])
        kinds = [f"G{index // 50}" for index in range(400)] + [""] * 50
        scores = Scores(list(map(str, range(450))), labels.astype(np.int8), values)
        columns = {"a": ["A"] * 450, "g": kinds}
        result = cross_test(scores, columns, ("a", "g"), replicates=200, seed=seed)
        highest = result.overall.highest
        # The EER of both populations: normal, two deviations apart.
        covered += highest.low <= 0.158655 <= highest.high
    # .86 of 150 sets; percentiles of the highest EERs of replicates cover hardly any.
    assert covered >= 30


def test_speakers_are_drawn_where_every_set_has_ten() -> None:
    scores, columns = make(0, 40)
    columns["speaker"] = [f"S{index % 20}" for index in range(len(scores))]
    result = cross_test(scores, columns, ("attack", "speech"), replicates=100)
    assert result.over == "speakers"
    assert result.overall.mean.groups == 20
    columns["speaker"] = [f"S{index % 4}" for index in range(len(scores))]
    assert cross_test(scores, columns, ("attack", "speech"), replicates=100).over == "trials"


def test_a_single_set_of_genuine_speech_is_refused() -> None:
    scores, columns = make()
    columns["speech"] = ["read" if name else "" for name in columns["speech"]]
    with pytest.raises(AsdfError, match="there is one, 'read'"):
        cross_test(scores, columns, ("attack", "speech"), replicates=0)


def test_sets_without_errors_have_an_upper_end() -> None:
    values = np.concatenate([np.linspace(1, 2, 60), np.linspace(-2, -1, 30)])
    scores = Scores(list(map(str, range(90))), np.repeat([1, 0], [60, 30]).astype(np.int8), values)
    kinds = ["x"] * 30 + ["y"] * 30 + [""] * 30
    result = cross_test(scores, {"a": ["A"] * 90, "g": kinds}, ("a", "g"), replicates=50)
    # Clopper and Pearson of 0 of 30.
    assert result.overall.highest.high == pytest.approx(1 - 0.025 ** (1 / 30))


def test_few_trials_and_trials_without_a_set_are_said() -> None:
    scores, columns = make()
    columns["attack"] = [
        name if index % 40 < 12 or name != "A2" else ""
        for index, name in enumerate(columns["attack"])
    ]
    sentences = remarks(cross_test(scores, columns, ("attack", "speech"), replicates=0))
    assert sentences[0].startswith("3 of 6 EERs are of fewer than 20 trials of a class (A2)")
    assert sentences[1] == "28 spoof trials have no attack and are left out."


def test_all_outputs_have_the_numbers_of_the_matrix() -> None:
    scores, columns = make()
    result = cross_test(scores, columns, ("attack", "speech"), replicates=50)
    rows = list(csv.DictReader(io.StringIO(cross_test_csv("net", result))))
    record = json.loads(cross_test_json("net", result))
    pair = result.pairs[1][2]
    in_csv = [row for row in rows if (row["spoof"], row["genuine"]) == ("A2", "song")]
    assert float(in_csv[0]["eer"]) == pair.eer.value
    assert record["pairs"][5]["eer"] == pair.eer.value
    assert record["by_genuine"]["song"]["highest"]["eer"] == result.by_genuine[2].highest.value
    shown = f"{100 * pair.eer.value:.2f}"
    assert shown in cross_test_text("net", result)
    assert shown in cross_test_latex("net", result)
    table = cross_test_table(result)
    assert [len(values) for _, values in table.columns] == [4] * 5


def write(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_files_of_one_class_are_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoofs = write(tmp_path / "tts.txt", [f"t{i} - spoof {i / 10}" for i in range(30)])
    read = write(tmp_path / "read.txt", [f"r{i} - bonafide {4 + i / 10}" for i in range(30)])
    song = write(tmp_path / "song.txt", [f"s{i} - bonafide {i / 10 + 0.05}" for i in range(30)])
    page = tmp_path / "m.html"
    out = tmp_path / "m.json"
    words = [spoofs, read, song, "--cross-test", "file,file", "--html", str(page)]
    assert main(["evaluate", *words, "--json", str(out), "--replicates", "20"]) == 0
    record = json.loads(out.read_text(encoding="utf-8"))
    assert [pair["genuine"] for pair in record["pairs"]] == ["read", "song"]
    assert record["pairs"][0]["eer"] == 0
    assert record["pairs"][1]["eer"] == pytest.approx(0.5, abs=0.04)
    assert "tts against song" in page.read_text(encoding="utf-8")
    assert "mean EER" in capsys.readouterr().out


def test_a_protocol_may_be_scored_in_several_files(tmp_path: Path) -> None:
    lines = ["path,label,attack,lang"]
    for index in range(40):
        lines.append(f"g{index},bonafide,-,{'de' if index % 2 else 'fr'}")
        lines.append(f"s{index},spoof,A{index % 2},")
    protocol = write(tmp_path / "p.csv", lines)
    first = write(tmp_path / "a.txt", [f"g{i} {i + 0.5}" for i in range(40)])
    second = write(tmp_path / "b.txt", [f"s{i} {i}" for i in range(40)])
    out = tmp_path / "m.csv"
    words = [first, second, "--protocol", protocol, "--cross-test", "attack,lang"]
    assert main(["evaluate", *words, "--csv", str(out), "--replicates", "0"]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [(row["spoof"], row["genuine"]) for row in rows[:2]] == [("A0", "de"), ("A0", "fr")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cross-test", "attack"], "expected two columns"),
        (["--cross-test", "attack,nothing"], "no column nothing. Columns: attack, file; a label"),
        (["--cross-test", "attack,file", "--by", "attack"], "Leave --by out"),
        (["--html", "a.html"], "--html needs --cross-test"),
    ],
)
def test_mistakes_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    path = write(tmp_path / "a.txt", ["a A1 spoof 0", "b - bonafide 1"])
    assert main(["evaluate", path, *words]) != 0
    assert says in capsys.readouterr().err
