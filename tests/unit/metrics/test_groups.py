"""Groups against EERs that are counted out, and p-values against all permutations."""

from __future__ import annotations

import csv
import io
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.metrics.detection import DetCurve
from asdf.metrics.groups import compare_groups
from asdf.metrics.results import joined_columns
from asdf.trials.score_file import Scores


def eer_of(scores: Scores, chosen: np.ndarray) -> float:
    labels = scores.labels
    curve = DetCurve.of(
        scores.scores[chosen & (labels == 1)], scores.scores[chosen & (labels == 0)]
    )
    return curve.eer()[0]


def make(
    speakers: int = 12, trials: int = 10, seed: int = 0, worse: float = 0.0, spread: float = 0.3
) -> tuple[Scores, dict[str, list[str]]]:
    """Speakers with offsets of their own; bona fide trials of every third are lower by `worse`."""
    rng = np.random.default_rng(seed)
    values: list[float] = []
    labels: list[int] = []
    columns: dict[str, list[str]] = {"speaker": [], "language": [], "codec": []}
    for speaker in range(speakers):
        language = ("de", "fr", "it")[speaker % 3]
        offset = rng.normal(0, spread)
        for trial in range(2 * trials):
            label = trial % 2
            lower = worse if language == "it" and label else 0.0
            values.append(rng.normal(2 * label - 1, 1) + offset - lower)
            labels.append(label)
            columns["speaker"].append(f"S{speaker}")
            columns["language"].append(language)
            columns["codec"].append("mp3" if trial // 2 % 2 else "wav")
    ids = list(map(str, range(len(values))))
    return Scores(ids, np.array(labels, np.int8), np.array(values)), columns


def test_each_group_has_its_eer_and_that_of_the_others() -> None:
    scores, columns = make(worse=1.5)
    [study] = compare_groups(scores, columns, ["language"], replicates=100)
    values = np.array(columns["language"])
    expected = {name: eer_of(scores, values == name) for name in ("de", "fr", "it")}
    for group in study.groups:
        assert group.eer.value == expected[group.value]
        others = eer_of(scores, values != group.value)
        assert group.difference.value == pytest.approx(expected[group.value] - others)
    assert study.worst == "it"
    assert study.gap.value == pytest.approx(expected["it"] - min(expected.values()))
    assert study.gap.groups == 4
    threshold = DetCurve.of_scores(scores).eer()[1]
    it = study.groups[2]
    chosen = values == "it"
    assert it.miss == np.mean(scores.scores[chosen & (scores.labels == 1)] < threshold)
    assert it.false_alarm == np.mean(scores.scores[chosen & (scores.labels == 0)] >= threshold)


def test_p_values_are_the_share_of_all_permutations() -> None:
    scores, columns = make(speakers=8, trials=12, seed=3)
    columns["gender"] = ["f" if int(name[1:]) < 4 else "m" for name in columns["speaker"]]
    [study] = compare_groups(scores, columns, ["gender"], replicates=2000)
    assert study.permuted == "speakers"
    speaker = np.array([int(name[1:]) for name in columns["speaker"]])
    gaps = []
    for women in combinations(range(8), 4):
        chosen = np.isin(speaker, women)
        gaps.append(abs(eer_of(scores, chosen) - eer_of(scores, ~chosen)))
    exact = np.mean(np.array(gaps) >= study.gap.value - 1e-12)
    # 2,000 draws: five standard deviations of a share.
    assert study.gap.p_value == pytest.approx(exact, abs=5 * np.sqrt(0.25 / 2000))
    assert study.groups[0].difference.p_value == study.gap.p_value
    # Two groups are one comparison.
    assert study.groups[0].p_corrected == study.gap.p_value


def test_a_difference_varies_as_redrawn_speakers_do() -> None:
    scores, columns = make(speakers=30, seed=5)
    [study] = compare_groups(scores, columns, ["language"], replicates=600)
    rng = np.random.default_rng(9)
    speaker = np.array([int(name[1:]) for name in columns["speaker"]])
    values = np.array(columns["language"])
    best, worst = study.best, study.worst
    drawn = []
    for _ in range(600):
        eers = []
        for name in (best, worst):
            members = np.unique(speaker[values == name])
            chosen = [np.flatnonzero(speaker == s) for s in rng.choice(members, members.size)]
            index = np.concatenate(chosen)
            eers.append(eer_of(scores.select(index), np.ones(index.size, bool)))
        drawn.append(eers[1] - eers[0])
    # Student's t of 9 degrees of freedom, and n / (n - 1) of the variance, of 10 speakers a group.
    reach = 2.262157 * np.std(drawn) * np.sqrt(10 / 9)
    assert study.gap.high - study.gap.value == pytest.approx(reach, rel=0.12)


def test_a_planted_gap_is_found_and_none_without() -> None:
    scores, columns = make(speakers=24, worse=1.8)
    [study] = compare_groups(scores, columns, ["language"], replicates=300)
    assert study.gap.low > 0
    assert study.gap.p_value is not None
    assert study.gap.p_value < 0.02
    corrected = {group.value: group.p_corrected for group in study.groups}
    assert corrected["it"] < 0.05
    scores, columns = make(speakers=24)
    [study] = compare_groups(scores, columns, ["language"], replicates=300)
    assert study.gap.p_value is not None
    assert study.gap.p_value > 0.05


def test_what_varies_within_speakers_is_permuted_within_them() -> None:
    scores, columns = make()
    [study] = compare_groups(scores, columns, ["codec"], replicates=50)
    assert study.permuted == "trials within speakers"
    assert study.over == "speakers"
    columns.pop("speaker")
    [study] = compare_groups(scores, columns, ["codec"], replicates=50)
    assert (study.permuted, study.over, study.gap.groups) == ("trials", "trials", None)


def test_one_speaker_says_nothing_of_others() -> None:
    scores, columns = make(speakers=7, trials=60, seed=1)
    columns["site"] = ["a" if name == "S3" else "b" for name in columns["speaker"]]
    (study,) = compare_groups(scores, columns, ["site"], replicates=20)
    alone, others = study.groups
    assert (alone.value, alone.speakers, others.speakers) == ("a", 1, 6)
    assert (alone.eer.low, alone.eer.high) == (0.0, 1.0)
    assert 0 < others.eer.low < others.eer.high < 1
    for known in (study.gap, alone.difference, others.difference):
        assert (known.low, known.high) == (-1.0, 1.0)
    assert study.gap.describe_groups("speakers") == "1 speaker only"
    assert study.gap.value == pytest.approx(abs(alone.eer.value - others.eer.value))


def test_groups_of_few_trials_are_left_out() -> None:
    scores, columns = make(speakers=12, trials=4)
    columns["rare"] = ["x" if int(name[1:]) < 2 else "y" for name in columns["speaker"]]
    assert compare_groups(scores, columns, ["rare"], replicates=20) == ()
    columns["rare"] = [
        {0: "x", 1: "y", 2: "y"}.get(int(name[1:]) // 4 if int(name[1:]) else 0, "z")
        for name in columns["speaker"]
    ]
    columns["three"] = ["x" if i < 8 else ("y", "z")[i % 4 < 2] for i in range(len(scores))]
    [study] = compare_groups(scores, columns, ["three"], replicates=20)
    assert study.left_out == ("x",)


def test_joined_columns_are_groups_of_both() -> None:
    columns = {"a": ["1", "2", ""], "b": ["x", "y", "z"]}
    assert joined_columns(columns, ["a", "a+b", "a+c"]) == {
        **columns,
        "a+b": ["1 / x", "2 / y", ""],
    }


def write_corpus(folder: Path) -> list[str]:
    scores, columns = make(speakers=24, trials=30, worse=1.5)
    rows = ["path,label,speaker,language,codec"]
    lines = []
    for index, utterance in enumerate(scores.ids):
        label = "bonafide" if scores.labels[index] else "spoof"
        cells = [columns[name][index] for name in ("speaker", "language", "codec")]
        rows.append(",".join([f"u{utterance}", label, *cells]))
        lines.append(f"u{utterance} {scores.scores[index]:.6f}")
    (folder / "p.csv").write_text("\n".join(rows), encoding="utf-8")
    (folder / "s.txt").write_text("\n".join(lines), encoding="utf-8")
    return [str(folder / "s.txt"), "--protocol", str(folder / "p.csv"), "--replicates", "50"]


def test_all_outputs_have_the_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_corpus(tmp_path)
    out = {suffix: tmp_path / f"g.{suffix}" for suffix in ("json", "csv", "tex", "html")}
    for path in out.values():
        words += ["-o", str(path)]
    assert main(["evaluate", *words, "--by", "language,language+codec"]) == 0
    text = capsys.readouterr().out
    [record] = json.loads(out["json"].read_text(encoding="utf-8"))
    study, joined = record["groups"]
    assert [group["value"] for group in study["groups"]] == ["de", "fr", "it"]
    assert len(joined["groups"]) == 6
    gap = study["gap"]
    assert f"gap {100 * gap['value']:.2f} %: it" in text
    assert f"{100 * gap['value']:.2f}" in out["html"].read_text(encoding="utf-8")
    assert "% groups by language+codec" in out["tex"].read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(out["csv"].read_text(encoding="utf-8"))))
    gaps = [row for row in rows if row["kind"] == "gap"]
    assert float(gaps[0]["difference"]) == gap["value"]
    assert float(gaps[0]["p"]) == gap["p_value"]
    groups = [row for row in rows if row["kind"] == "group" and row["column"] == "language"]
    assert [float(row["p_holm"]) for row in groups] == [g["p_corrected"] for g in study["groups"]]


def test_without_by_nothing_is_compared(tmp_path: Path) -> None:
    words = write_corpus(tmp_path)
    out = tmp_path / "plain.json"
    assert main(["evaluate", *words, "--json", str(out)]) == 0
    [record] = json.loads(out.read_text(encoding="utf-8"))
    assert "groups" not in record


def test_a_page_without_groups_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = write_corpus(tmp_path)
    page = tmp_path / "g.html"
    assert main(["evaluate", *words, "--by", "attack", "--html", str(page)]) != 0
    assert "no column of --by has two groups" in capsys.readouterr().err
    assert not page.exists()
    assert main(["evaluate", *words, "--by", "language+age", "--html", str(page)]) != 0
    assert "no column age" in capsys.readouterr().err


@pytest.mark.slow
def test_p_values_hold_where_no_group_differs() -> None:
    """Speakers that differ, groups that do not: p below .05 in about .05 of sets."""
    below = 0
    corrected = 0
    for seed in range(200):
        scores, columns = make(speakers=18, trials=10, seed=seed, spread=0.7)
        [study] = compare_groups(scores, columns, ["language"], replicates=99, seed=seed)
        assert study.gap.p_value is not None
        below += study.gap.p_value <= 0.05
        corrected += min(group.p_corrected for group in study.groups) <= 0.05
    # Of 200: three standard deviations above .05.
    assert below <= 20
    assert corrected <= 20
