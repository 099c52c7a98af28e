"""Parts of a list that several processes score, and the outputs that one would have written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import soundfile

from asdf.__main__ import main
from asdf.commands.score_journal import Part, journal_path
from asdf.errors import UsageError
from asdf.runs.systems import can_lock
from tests.unit.conftest import small_settings, sound, write_small_network

COUNT = 7
OUTPUTS = ("--scores", "out.txt", "--csv", "out.csv")
NAMES = ("out.txt", "out.csv", "out.scored.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a network, a list of seven recordings, and what one process writes of it."""
    folder = tmp_path_factory.mktemp("whole")
    settings = small_settings(max_evaluation_utterance_length_in_samples=16000)
    write_small_network(folder / "net.pt", settings)
    lines = []
    for number in range(COUNT):
        soundfile.write(folder / f"r{number}.wav", sound(6000 + 300 * number, number), 16000)
        lines.append(f"r{number}.wav {number % 2}\n")
    (folder / "list.txt").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["score", "net.pt", "list.txt", *OUTPUTS, "--device", "cpu"]) == 0
    return folder


@pytest.fixture
def score(whole, tmp_path, monkeypatch, capsys):
    """Scores the list in a folder of its own, as one of several processes."""
    mine = shutil.copytree(whole, tmp_path / "mine")
    for name in NAMES:
        (mine / name).unlink()
    monkeypatch.chdir(mine)

    def run(*words, network="net.pt"):
        status = main(["score", network, "list.txt", *OUTPUTS, *words, "--device", "cpu"])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    run.folder = mine
    return run


def progress_files(folder):
    return sorted(path.name for path in folder.glob(".*.progress"))


@pytest.mark.slow_but("3")
@pytest.mark.parametrize("of", [1, 3, 10])
def test_merged_parts_are_the_bytes_of_one_process(score, whole, of):
    """Ten parts of seven recordings, too: some are of none."""
    for number in reversed(range(1, of + 1)):
        status, said = score("--part", f"{number}/{of}")
        assert status == 0 and f"part {number}/{of} is done" in said
        assert not any((score.folder / name).exists() for name in NAMES)
    status, _ = score("--merge")
    assert status == 0
    for name in NAMES:
        assert (score.folder / name).read_bytes() == (whole / name).read_bytes()
    assert progress_files(score.folder) == []


def test_parts_are_neighbours_and_all_that_there_is():
    for count in (0, 1, 7, 40, 101):
        indices = [index for k in range(1, 41) for index in Part(k, 40).indices(count)]
        assert indices == list(range(count))
        sizes = {len(Part(k, 40).indices(count)) for k in range(1, 41)}
        assert max(sizes) - min(sizes) <= 1


def test_a_part_goes_on_where_it_stopped(score, whole):
    score("--part", "1/2")
    path = score.folder / ".out.csv.part-1-of-2.progress"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 3
    path.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    score("--part", "2/2")
    status, said = score("--merge")
    assert status == 2 and "part 1/2 is incomplete: it has results of 1 of its 3 recordings" in said
    status, said = score("--part", "1/2")
    assert status == 0 and "1 of 3 recordings were scored before" in said
    assert score("--merge")[0] == 0
    assert (score.folder / "out.txt").read_bytes() == (whole / "out.txt").read_bytes()


def test_holes_are_named(score):
    status, said = score("--merge")
    assert status == 2 and "--merge: no parts of" in said
    score("--part", "2/4")
    status, said = score("--merge")
    assert status == 2 and "of 4 parts of out.csv 3 are missing: 1, 3, 4" in said
    assert not (score.folder / "out.txt").exists()


def test_two_divisions_are_refused(score):
    for part in ("1/1", "1/2", "2/2"):
        score("--part", part)
    status, said = score("--merge")
    assert status == 2 and "contains parts of 1 and of 2" in said


def test_results_of_another_part_are_refused(score):
    for part in ("1/2", "2/2"):
        score("--part", part)
    first, second = (score.folder / f".out.csv.part-{k}-of-2.progress" for k in (1, 2))
    with first.open("ab") as file:
        file.write(second.read_bytes().splitlines(keepends=True)[1])
    status, said = score("--merge")
    assert status == 2 and "contains results of other parts" in said


def test_parts_of_another_network_are_refused(score):
    settings = small_settings(max_evaluation_utterance_length_in_samples=15999)
    write_small_network(score.folder / "other.pt", settings)
    score("--part", "1/2")
    score("--part", "2/2", network="other.pt")
    status, said = score("--merge")
    assert status == 2 and "part 2/2 was scored with another network, list or options" in said


def test_json_names_the_command_of_one_process(score):
    for part in ("1/2", "2/2"):
        score("--json", "out.json", "--part", part)
    assert score("--json", "out.json", "--merge")[0] == 0
    document = json.loads((score.folder / "out.json").read_text())
    assert "--merge" not in document["made_by"]["command"]
    assert len(document["recordings"]) == COUNT


def test_a_part_is_whole_on_standard_output(whole, tmp_path, monkeypatch, capfd):
    mine = shutil.copytree(whole, tmp_path / "mine")
    monkeypatch.chdir(mine)
    words = ["score", "net.pt", "list.txt", "--scores", "out.txt", "--json", "-", "--part", "2/2"]
    assert main([*words, "--device", "cpu"]) == 0
    assert len(json.loads(capfd.readouterr().out)["recordings"]) == 4


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(UsageError, match="write K/N, from 1/N to N/N"):
        Part.parse(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--part", "1/2", "--merge"), "--part and --merge exclude each other"),
        (("--part", "3/2"), "write K/N, from 1/N to N/N"),
    ],
)
def test_contradicting_options_are_refused(score, words, said):
    status, output = score(*words)
    assert status == 2 and said in output


def test_without_an_output_there_is_nowhere_to_keep_a_part(score, capsys):
    assert main(["score", "net.pt", "list.txt", "--part", "1/2", "--device", "cpu"]) == 2
    assert "no output file is given" in capsys.readouterr().err


def test_an_output_that_is_being_written_is_not_merged(score):
    assert score("--part", "1/1")[0] == 0
    with journal_path(Path("out.csv")).open("w") as journal:
        can_lock(journal)
        status, said = score("--merge")
    assert status != 0 and "another process is writing out.csv" in said
    assert score("--merge")[0] == 0
