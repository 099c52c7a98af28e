"""`python -m asdf evaluate` sees what a file holds, and refuses options that do not apply to it."""

from __future__ import annotations

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
