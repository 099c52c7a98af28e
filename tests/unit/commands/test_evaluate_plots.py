"""`python -m asdf evaluate --plot`: which curves are drawn, and what is refused."""

import pytest

from asdf.__main__ import main

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
    return [
        line.split(">")[-2].split("<")[0]
        for line in path.read_text().splitlines()
        if "EER" in line and "<text" in line
    ]


def test_curves_by_attack(scores, out, capsys):
    assert draw(out, scores, "--by", "attack") == 0
    assert "3 curves" in capsys.readouterr().out
    assert labels(out) == ["net: EER 50.00 %", "A07: EER 0.00 %", "A08: EER 75.00 %"]


def test_systems_on_the_trials_of_a_protocol(scores, out, tmp_path, capsys):
    protocol, other = tmp_path / "protocol.txt", tmp_path / "other.txt"
    protocol.write_text("S1 U1 - - bonafide\nS1 U3 - A07 spoof\n")
    other.write_text("U1 0.5\nU3 0.75\n")
    assert draw(out, scores, other, "--protocol", protocol, "--ignore-others") == 0
    assert "2 scored trials ignored, 2 evaluated" in capsys.readouterr().err
    assert labels(out) == ["net: EER 0.00 %", "other: EER 100.00 %"]


def test_attacks_of_the_score_file_where_the_protocol_has_none(scores, out, tmp_path):
    protocol = tmp_path / "protocol.tsv"
    rows = "".join(f"U{i}\t{int(i < 3)}\t\n" for i in range(1, 5))
    protocol.write_text(f"utterance\tlabel\tattack\n{rows}")
    assert draw(out, scores, "--protocol", protocol, "--by", "attack") == 0
    assert labels(out) == ["net: EER 50.00 %", "A07: EER 0.00 %", "A08: EER 75.00 %"]


def test_an_attack_called_as_the_system_keeps_its_own_curve(tmp_path, out):
    path = tmp_path / "A07.txt"
    path.write_text(KEYED)
    assert draw(out, path, "--by", "attack") == 0
    assert labels(out) == ["A07: EER 50.00 %", "'A07': EER 0.00 %", "A08: EER 75.00 %"]


def test_two_columns_together(scores, out, tmp_path):
    protocol = tmp_path / "protocol.tsv"
    rows = "".join(f"U{i}\t{int(i < 3)}\t{'fm'[i % 2]}\tde\n" for i in range(1, 5))
    protocol.write_text(f"utterance\tlabel\tgender\tlanguage\n{rows}")
    assert draw(out, scores, "--protocol", protocol, "--by", "gender+language") == 0
    assert [line.split(":")[0] for line in labels(out)] == ["net", "f / de", "m / de"]


def test_systems_have_the_names_of_the_arguments(scores, out, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "net.txt").write_text(KEYED)
    assert draw(out, f"XLS-R={scores}", tmp_path / "b" / "net.txt") == 0
    assert labels(out) == ["XLS-R: EER 50.00 %", "net: EER 50.00 %"]


def test_dollar_signs_are_text(scores, out):
    assert draw(out, rf"a$\nothing$={scores}") == 0
    assert labels(out) == [r"a$\nothing$: EER 50.00 %"]


def test_a_column_without_curves_is_warned_of(scores, out, tmp_path, capsys):
    protocol = tmp_path / "protocol.tsv"
    rows = "".join(f"U{i}\t{int(i < 3)}\topus\n" for i in range(1, 5))
    protocol.write_text(f"utterance\tlabel\tcodec\n{rows}")
    assert draw(out, scores, "--protocol", protocol, "--by", "codec") == 0
    assert "all trials have the same value" in capsys.readouterr().err
    assert labels(out) == ["net: EER 50.00 %"]


def test_what_is_refused(scores, tmp_path, capsys):
    assert draw(tmp_path / "det.pdf", scores, "--by", "codec") == 2
    assert "no column codec. Columns: only attack" in capsys.readouterr().err
    assert draw(tmp_path / "det.doc", scores) == 2
    assert "plots are written as pdf, png, svg" in capsys.readouterr().err
    assert not list(tmp_path.glob("det*"))
