"""Lines of progress, now and then."""

import itertools

from asdf.runs.log import log_to_screen, track


def test_progress_lines_come_every_n_items(capsys):
    log_to_screen()
    assert list(track(range(7), 7, "scoring dev", lines_every=3, unit="batches")) == list(range(7))
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [
        "scoring dev: 3 of 7",
        "scoring dev: 6 of 7",
    ]
    assert list(track(range(7), 7, "scoring dev", lines_every=3, shown=False)) == list(range(7))
    assert capsys.readouterr().out == ""


def test_progress_lines_come_often_at_first(capsys, monkeypatch):
    """An item takes 3 s here."""
    now = itertools.count(0, 3.0)
    monkeypatch.setattr("asdf.runs.log.time.monotonic", lambda: next(now))
    log_to_screen()
    list(track(range(60), 60, "measuring", unit="utterances"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "measuring: 2 of 60, 3.0 s per utterance"
    shown = [int(line.split()[1]) for line in lines]
    assert shown == [2, 4, 6, 8, 10, 12, 14, 16, 18, 28, 38, 48, 58]
