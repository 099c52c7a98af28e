"""`evaluate` of what `score --csv` and `score --json` wrote is that of the score file."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.evaluation import read_any_scores, read_scores, write_scores
from tests.unit.conftest import sound, write_small_network

NAMES = [f"{'=' if i == 3 else ''}{i}, a.wav" for i in range(12)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Tables and score files of a network and of the same, calibrated within narrow limits."""
    folder = tmp_path_factory.mktemp("tables")
    for number, name in enumerate(NAMES):
        soundfile.write(folder / name, sound(9000, number), 16000)
    lines = [f"{name} {number % 2}\n" for number, name in enumerate(NAMES)]
    (folder / "list.txt").write_text("".join(lines))
    net = write_small_network(folder / "net.pt")
    for network in ("net", "calibrated"):
        outputs = []
        for option, suffix in (("--scores", "txt"), ("--csv", "csv"), ("--json", "json")):
            outputs += [option, str(folder / f"{network}.{suffix}")]
        words = [str(folder / f"{network}.pt"), str(folder / "list.txt"), "--threads", "1"]
        if network == "calibrated":
            # Its limits are those of 12 recordings, beyond which most scores lie.
            scores = read_scores(folder / "net.txt")
            apart = [f"{name}-away" for name in scores.ids]
            moved = scores.scores + 0.001 * scores.labels
            write_scores(folder / "apart.txt", apart, scores.labels, moved.astype(np.float32))
            calibrate = [str(net), str(folder / "apart.txt"), "-o", str(folder / "calibrated.pt")]
            assert main(["calibrate", *calibrate]) == 0
        assert main(["score", *words, *outputs]) == 0
    return folder


def rates(file: Path, out: Path, *words) -> dict:
    options = ["--json", out, "--replicates", 0, *words]
    assert main(["evaluate", str(file), *map(str, options)]) == 0
    [system] = json.loads(out.read_text())
    return system


@pytest.mark.parametrize("suffix", ["csv", "json"])
@pytest.mark.parametrize("network", ["net", "calibrated"])
def test_error_rates_are_those_of_the_score_file(made, tmp_path, network, suffix):
    scores = read_any_scores(made / f"{network}.{suffix}")
    expected = read_scores(made / f"{network}.txt")
    assert [Path(name).name for name in scores.ids] == expected.ids == NAMES
    assert scores.labels.tolist() == expected.labels.tolist()
    # A likelihood ratio rises with the score, beyond its limits too.
    assert np.argsort(scores.scores).tolist() == np.argsort(expected.scores).tolist()
    tables = rates(made / f"{network}.{suffix}", tmp_path / "a.json")
    assert tables["eer"] == rates(made / f"{network}.txt", tmp_path / "b.json")["eer"]
    # Labels of a protocol replace theirs.
    protocol = ("--protocol", made / "list.txt")
    file = made / f"{network}.{suffix}"
    assert rates(file, tmp_path / "c.json", *protocol)["eer"] == tables["eer"]


def test_windows_are_left_out_and_labels_come_from_a_protocol(made, tmp_path, monkeypatch):
    monkeypatch.chdir(made)
    outputs = [tmp_path / "out.csv", tmp_path / "out.json"]
    words = ["score", "net.pt", *NAMES, "--window", 0.3, "--threads", 1]
    assert main([*map(str, words), "--csv", str(outputs[0]), "--json", str(outputs[1])]) == 0
    for path in outputs:
        with pytest.raises(AsdfError, match="has no label"):
            read_any_scores(path)
        scores = read_any_scores(path, {name: i % 2 for i, name in enumerate(NAMES)})
        assert scores.ids == NAMES
        rates(path, tmp_path / "a.json", "--protocol", "list.txt")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("net.csv", ",2.37", ",a2.37", "line 2: the score 'a2.37.*' is not a number"),
        ("net.csv", ",fp32\n", "\n", "line 2: the row has another number of cells"),
        ("net.csv", ",,0,,", ",,7,,", "has no label"),
        ("net.json", '"complete": true', '"complete": false', "lacks recordings"),
        ("net.json", '"complete": true\n}', "", "is not a whole document"),
        ("net.json", '"score": 2.37', '"error": "silent", "x": 2.37', "was not scored: silent"),
    ],
)
def test_damaged_tables_are_refused(made, tmp_path, name, old, new, message):
    text = (made / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new))
    with pytest.raises(AsdfError, match=message):
        read_any_scores(tmp_path / name)


def test_an_indented_table_is_read_as_it_was(made, tmp_path):
    table = (made / "net.csv").read_text()
    (tmp_path / "net.csv").write_text(re.sub("^", "  ", table, flags=re.MULTILINE))
    assert read_any_scores(tmp_path / "net.csv").ids == read_any_scores(made / "net.csv").ids


def test_a_recording_without_a_score_is_refused(made, tmp_path):
    table = (made / "net.csv").read_text()
    text = re.sub(r",2\.37\d+,,0,,", ",,,0,cannot be read,", table, count=1)
    (tmp_path / "net.csv").write_text(text)
    with pytest.raises(AsdfError, match=r"line 2: .* was not scored: cannot be read"):
        read_any_scores(tmp_path / "net.csv")
