"""What was added is there after any end, and is taken up by the same work alone, in parts too."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.commands.journal import Journal, Part, journal_path, stamp_of
from asdf.errors import UsageError
from asdf.runs.files import digest_of
from asdf.runs.systems import can_lock
from tests.unit.conftest import small_settings, sound, write_small_network

WORK = {"network": "abc", "window": [4, 2]}


def entry(score):
    return {"score": score, "error": ""}


def always(_):
    return True


@pytest.fixture
def output(tmp_path):
    return tmp_path / "new" / "out.csv"


def begin(output, work=WORK, count=5, is_valid=always):
    return Journal(output, work, count, is_valid)


def abandon(journal):
    """What a kill does: nothing is written any more, and the lock is gone."""
    journal._file.close()
    journal._reader.close()


@pytest.mark.parametrize("end", [abandon, Journal.close])
def test_the_same_work_goes_on(output, end):
    journal = begin(output)
    assert (journal.known, journal.begins_anew) == (0, False)
    journal.add(3, entry(0.1))
    journal.add(0, entry(-2.5))
    assert [index in journal for index in range(5)] == [True, False, False, True, False]
    assert (journal[0]["score"], journal[3]["score"]) == (-2.5, 0.1)
    end(journal)
    again = begin(output)
    assert (again.known, again.begins_anew) == (2, False)
    assert again[3] == {"score": 0.1, "error": "", "index": 3}
    again.add(4, entry(7.0))
    assert (again.known, again[4]["score"], again[0]["score"]) == (3, 7.0, -2.5)
    assert (output.parent / ".out.csv.progress").is_file()
    again.remove()
    assert list(output.parent.iterdir()) == [] and begin(output).known == 0


@pytest.mark.parametrize(
    "torn",
    [
        b'{"score": 1.0, "err',
        # Whole but for the end of its line, to which the next entry would be added.
        b'{"score": 1.0, "error": "", "index": 3}',
        *(b"\0" * 40, b'{"score": 1}\n', b"[1]\n", b"\n"),
    ],
)
def test_a_torn_line_and_what_follows_is_ignored(output, torn):
    journal = begin(output)
    journal.add(1, entry(1.5))
    with journal.path.open("ab") as file:
        file.write(torn)
    abandon(journal)
    again = begin(output)
    assert (again.known, again[1]["score"]) == (1, 1.5)
    again.add(2, entry(2.5))
    abandon(again)
    last = begin(output)
    assert (last.known, last[2]["score"]) == (2, 2.5)
    lines = last.path.read_bytes().splitlines()
    assert [json.loads(line).get("index") for line in lines] == [None, 1, 2]


@pytest.mark.parametrize("work", [{**WORK, "network": "other"}, {**WORK, "window": None}])
def test_other_work_begins_anew(output, work):
    journal = begin(output)
    journal.add(1, entry(1.5))
    abandon(journal)
    again = begin(output, work)
    assert (again.known, again.begins_anew) == (0, True)
    assert 1 not in again


def test_an_entry_that_does_not_hold_any_more_is_made_again(output):
    journal = begin(output)
    journal.add(0, entry(1.5))
    journal.add(1, {"score": None, "error": "broken"})
    abandon(journal)
    again = begin(output, is_valid=lambda entry: not entry["error"])
    assert (again.known, 0 in again, 1 in again) == (1, True, False)
    again.add(1, entry(3.5))
    abandon(again)
    last = begin(output, is_valid=lambda entry: not entry["error"])
    assert (last.known, last[1]["score"]) == (2, 3.5)


def test_one_output_has_one_writer(output):
    journal = begin(output)
    with pytest.raises(UsageError, match=r"another process is writing .*out\.csv"):
        begin(output)
    abandon(journal)
    assert begin(output).known == 0


def test_without_an_output_entries_last_until_they_are_dropped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = begin(None)
    journal.add(2, entry(1.0))
    assert journal[2] == {**entry(1.0), "index": 2}
    journal.add(0, entry(2.0))
    assert (journal[0]["score"], journal[2]["score"], journal.known) == (2.0, 1.0, 2)
    assert 1 not in journal and journal.path is None
    journal.clear()
    journal.add(4, entry(3.0))
    assert (journal[4]["score"], 0 in journal, journal.known) == (3.0, True, 3)
    journal.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", [None, "out.csv"])
def test_values_of_columns_of_ones_own(tmp_path, where):
    journal = begin(where and tmp_path / where)
    journal.add(0, {"values": {"margin": np.float32(0.5), "count": np.int64(3)}})
    assert journal[0]["values"] == {"margin": 0.5, "count": 3}
    with pytest.raises(UsageError, match=r"PosixPath cannot be saved.*`saved`"):
        journal.add(1, {"values": {"margin": tmp_path}})
    assert journal.known == 1
    journal.remove()


def test_digests_and_stamps(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "a").write_text("1")
    before = digest_of(tmp_path / "net"), digest_of(tmp_path / "net" / "a")
    stamp = stamp_of(str(tmp_path / "net" / "a"))
    assert stamp[0] == 1
    # A recording in an archive, which is a file where its path has a folder.
    assert stamp_of(str(tmp_path / "net" / "a" / "b.flac")) == stamp
    (tmp_path / "net" / "a").write_text("22")
    assert digest_of(tmp_path / "net") != before[0]
    assert digest_of(tmp_path / "net" / "a") != before[1]
    assert stamp_of(str(tmp_path / "net" / "a")) != stamp


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


@pytest.fixture(scope="module")
def scored_halves(whole, tmp_path_factory):
    """The same folder with both halves of the list, each scored as a part."""
    folder = shutil.copytree(whole, tmp_path_factory.mktemp("halves") / "mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for part in ("1/2", "2/2"):
            words = ["score", "net.pt", "list.txt", *OUTPUTS, "--part", part, "--device", "cpu"]
            assert main(words) == 0
    return folder


@pytest.fixture
def halves(scored_halves, score):
    """The files of both halves in the folder of `score`."""
    paths = []
    for number in (1, 2):
        name = f".out.csv.part-{number}-of-2.progress"
        paths.append(shutil.copy(scored_halves / name, score.folder))
    return [Path(path) for path in paths]


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
    assert not list(score.folder.glob(".*.progress"))


def test_parts_are_neighbours_and_all_that_there_is():
    for count in (0, 1, 7, 40, 101):
        indices = [index for k in range(1, 41) for index in Part(k, 40).indices(count)]
        assert indices == list(range(count))
        sizes = {len(Part(k, 40).indices(count)) for k in range(1, 41)}
        assert max(sizes) - min(sizes) <= 1


def test_a_part_goes_on_where_it_stopped(score, whole, halves):
    lines = halves[0].read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 3
    halves[0].write_bytes(b"".join(lines[:2]) + lines[2][:20])
    status, said = score("--merge")
    assert status == 2 and "part 1/2 is incomplete, 1 of 3 recordings" in said
    status, said = score("--part", "1/2")
    assert status == 0 and "1 of 3 recordings were scored before" in said
    assert score("--merge")[0] == 0
    assert (score.folder / "out.txt").read_bytes() == (whole / "out.txt").read_bytes()


def test_parts_of_an_earlier_version_are_merged(score, whole, halves):
    """It stated the same work in another order, and nothing of what was not asked for."""
    for path in halves:
        header, *entries = path.read_text().splitlines(keepends=True)
        work = json.loads(header)
        assert {"frames", "sha256", "speech_check"}.isdisjoint(work)
        path.write_text("".join([json.dumps(dict(reversed(work.items()))) + "\n", *entries]))
    assert score("--merge")[0] == 0
    for name in NAMES:
        assert (score.folder / name).read_bytes() == (whole / name).read_bytes()


def test_holes_are_named(score):
    status, said = score("--merge")
    assert status == 2 and "has no parts" in said
    score("--part", "2/4")
    status, said = score("--merge")
    assert status == 2 and "out.csv lacks 3 of 4 parts: 1, 3, 4. Run each" in said
    assert not (score.folder / "out.txt").exists()


def test_parts_of_other_work_are_refused(score, halves):
    first, second = (path.read_bytes() for path in halves)
    # Results of another part, then a part of another network, then a second division.
    halves[0].write_bytes(first + second.splitlines(keepends=True)[1])
    status, said = score("--merge")
    assert status == 2 and "part 1/2 is of another network, list or options" in said
    halves[0].write_bytes(first)
    halves[1].unlink()
    settings = small_settings(max_evaluation_utterance_length_in_samples=15999)
    write_small_network(score.folder / "other.pt", settings)
    score("--part", "2/2", network="other.pt")
    status, said = score("--merge")
    assert status == 2 and "part 2/2 is of another network, list or options" in said
    score("--part", "1/1")
    status, said = score("--merge")
    assert status == 2 and "has parts of 1 and of 2" in said


def test_json_names_the_command_of_one_process(score):
    for part in ("1/2", "2/2"):
        score("--json", "out.json", "--part", part)
    assert score("--json", "out.json", "--merge")[0] == 0
    document = json.loads((score.folder / "out.json").read_text())
    assert "--merge" not in document["made_by"]["command"]
    assert len(document["recordings"]) == COUNT


def test_a_part_is_whole_on_standard_output(whole, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(shutil.copytree(whole, tmp_path / "mine"))
    words = ["score", "net.pt", "list.txt", "--scores", "out.txt", "--json", "-", "--part", "2/2"]
    assert main([*words, "--device", "cpu"]) == 0
    assert len(json.loads(capfd.readouterr().out)["recordings"]) == 4


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(UsageError, match="write K/N, from 1/N to N/N"):
        Part.parse(text)


def test_without_an_output_there_is_nowhere_to_keep_a_part(score, capsys):
    assert main(["score", "net.pt", "list.txt", "--part", "1/2", "--device", "cpu"]) == 2
    assert "next to an output file" in capsys.readouterr().err


def test_an_output_that_is_being_written_is_not_merged(score):
    assert score("--part", "1/1")[0] == 0
    with journal_path(Path("out.csv")).open("w") as journal:
        can_lock(journal)
        status, said = score("--merge")
    assert status != 0 and "another process is writing out.csv" in said
    assert score("--merge")[0] == 0
