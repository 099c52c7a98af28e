"""`python -m asdf evaluate` sees what a file holds, and refuses options that do not apply to it."""

import json
from dataclasses import fields

import pytest

from asdf.__main__ import FORMER, main
from asdf.commands.evaluate import COMMAND, KINDS, EvaluateOptions, kind_of
from asdf.commands.judged_files import named_systems

FRAMES = {"recordings": [{"name": "a", "hop_s": 0.02, "duration_s": 1.0, "scores": [1.0]}]}
CONTENTS = {
    "asdf.txt": ("a.wav 1 0.5\n", "detection"),
    "2019.txt": ("U1 A07 spoof 0.5\n", "detection"),
    "2021.txt": ("U1 0.5\n", "detection"),
    "asvspoof5.tsv": ("filename\tcm-score\nU1\t0.5\n", "detection"),
    "score.json": (json.dumps([{"path": "a.wav", "score": 1.0}]), "detection"),
    "searched.json": (json.dumps({"part_search": {"hop_s": 2.0}, "recordings": []}), "detection"),
    "segments.json": (json.dumps(FRAMES), "frames"),
    "set.sources.tsv": ("utterance\tattack\tenergy\tA01\tA02\n", "sources"),
    "track2.tsv": ("spk\tfilename\tcm-score\tasv-score\tsasv-score\n", "sasv"),
    "sasv2022.txt": ("S1 U1 0.5 target\n", "sasv"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_the_first_line_shows_what_a_file_holds(tmp_path, name):
    content, kind = CONTENTS[name]
    path = tmp_path / name
    path.write_text(content)
    args = COMMAND.read([str(path)])
    assert kind_of(args, named_systems(args.scores)) == kind


def test_some_options_show_it(tmp_path):
    (tmp_path / "list.txt").write_text("U1\nU2\n")
    for words, kind in (
        (["x", "--keys", "k"], "sasv"),
        (["x", "--hop", "0.02"], "frames"),
        (["x", "--check"], "submission"),
        (["x", "--submission", "o", "--protocol", str(tmp_path / "list.txt")], "submission"),
    ):
        args = COMMAND.read(words)
        assert kind_of(args, named_systems(args.scores)) == kind


def test_an_option_of_another_kind_is_refused(tmp_path, capsys):
    path = tmp_path / "scores.txt"
    path.write_text("a 1 1.0\nb 0 0.0\n")
    assert main(["evaluate", str(path), "--reject", "energy"]) == 2
    assert "--reject does not apply to detection scores" in capsys.readouterr().err
    assert main(["evaluate"]) == 2
    assert "give the score files" in capsys.readouterr().err


def test_each_option_is_of_a_kind():
    for one in fields(EvaluateOptions):
        assert any(kind.takes(one.name) for kind in KINDS.values()), one.name
    assert set(FORMER.values()) < set(KINDS)


KEYED = "U1 - bonafide 2\nU2 - bonafide 1\nU3 A07 spoof -1\nU4 A08 spoof 1.5\n"


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "net.txt"
    path.write_text(KEYED)
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "det.svg"


def draw(out, *words) -> int:
    return main(["evaluate", *map(str, words), "--replicates", "0", "--plot", str(out)])


def labels(path) -> list[str]:
    lines = [line for line in path.read_text().splitlines() if "EER" in line and "<text" in line]
    return [line.split(">")[-2].split("<")[0] for line in lines]


BY_ATTACK = ["net: EER 50.00 %", "A07: EER 0.00 %", "A08: EER 75.00 %"]
OF_ATTACK = "".join(f"U{i}\t{int(i < 3)}\t\n" for i in range(1, 5))
OF_VOICES = "".join(f"U{i}\t{int(i < 3)}\t{'fm'[i % 2]}\tde\n" for i in range(1, 5))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["net.txt", "--by", "attack"], BY_ATTACK),
        # Of the score file, where the protocol has none.
        (["net.txt", "--protocol", "attack.tsv", "--by", "attack"], BY_ATTACK),
        # A condition that is called as the system keeps its own curve.
        (["A07.txt", "--by", "attack"], ["A07: EER 50.00 %", "'A07': EER 0.00 %", BY_ATTACK[2]]),
        (
            ["net.txt", "--protocol", "voices.tsv", "--by", "gender+language"],
            [BY_ATTACK[0], "f / de: EER 100.00 %", "m / de: EER 0.00 %"],
        ),
        (["XLS-R=net.txt", "b/net.txt"], ["XLS-R: EER 50.00 %", "net: EER 50.00 %"]),
        ([r"a$\nothing$=net.txt"], [r"a$\nothing$: EER 50.00 %"]),
    ],
)
def test_curves(scores, out, tmp_path, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for name in ("A07.txt", "b/net.txt"):
        (tmp_path / name).write_text(KEYED)
    (tmp_path / "attack.tsv").write_text(f"utterance\tlabel\tattack\n{OF_ATTACK}")
    (tmp_path / "voices.tsv").write_text(f"utterance\tlabel\tgender\tlanguage\n{OF_VOICES}")
    assert draw(out, *words) == 0
    assert labels(out) == expected
    assert f"{len(expected)} curve" in capsys.readouterr().out


def test_a_column_without_curves_is_warned_of(scores, out, tmp_path, capsys):
    protocol = tmp_path / "protocol.tsv"
    rows = "".join(f"U{i}\t{int(i < 3)}\topus\n" for i in range(1, 5))
    protocol.write_text(f"utterance\tlabel\tcodec\n{rows}")
    assert draw(out, scores, "--protocol", protocol, "--by", "codec") == 0
    assert "all trials have the same value" in capsys.readouterr().err
    assert labels(out) == ["net: EER 50.00 %"]
