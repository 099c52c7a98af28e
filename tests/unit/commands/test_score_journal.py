"""What was added is there after any end, and is taken up by the same work alone."""

import json

import pytest

from asdf.commands.score_journal import Journal, Passing, stamp_of
from asdf.errors import UsageError
from asdf.runs.files import digest_of

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


def test_the_same_work_goes_on(output):
    journal = begin(output)
    assert (journal.known, journal.begins_anew) == (0, False)
    journal.add(3, entry(0.1))
    journal.add(0, entry(-2.5))
    assert [index in journal for index in range(5)] == [True, False, False, True, False]
    assert (journal[0]["score"], journal[3]["score"]) == (-2.5, 0.1)
    abandon(journal)
    again = begin(output)
    assert (again.known, again.begins_anew) == (2, False)
    assert again[3] == {"score": 0.1, "error": "", "index": 3}
    again.add(4, entry(7.0))
    assert (again.known, again[4]["score"], again[0]["score"]) == (3, 7.0, -2.5)
    assert (output.parent / ".out.csv.progress").is_file()
    again.remove()
    assert list(output.parent.iterdir()) == []


@pytest.mark.parametrize(
    "torn", [b'{"score": 1.0, "err', b"\0" * 40, b'{"score": 1}\n', b"[1]\n", b"\n"]
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


def test_a_closed_journal_is_taken_up_by_the_next_one(output):
    journal = begin(output)
    journal.add(1, entry(0.5))
    journal.close()
    again = begin(output)
    assert (again.known, again[1]["score"]) == (1, 0.5)
    again.remove()
    assert not again.path.exists() and begin(output).known == 0


def test_without_an_output_an_entry_is_handed_out_once():
    passing = Passing()
    passing.add(2, entry(1.0))
    assert (2 in passing, passing.known) == (True, 1)
    assert passing[2] == entry(1.0)
    assert (2 in passing, passing.known) == (False, 1)


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
