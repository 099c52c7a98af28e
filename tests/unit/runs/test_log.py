"""The log on the screen and in the run's file, and its lines of progress."""

import itertools
import re
from pathlib import Path

import pytest

from asdf.runs.log import LOG, log_to_file, log_to_screen, track


def test_the_screen_shows_plain_lines_and_the_file_their_time(tmp_path, capsys):
    log_to_screen()
    with log_to_file(tmp_path / "system" / "log.txt"):
        LOG.info("one %d", 1)
    LOG.info("two")
    assert capsys.readouterr().out == "one 1\ntwo\n"
    line = (tmp_path / "system" / "log.txt").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  one 1\n", line)


def test_a_later_start_adds_to_the_log(tmp_path):
    log_to_screen(is_main=False)
    for text in ("one", "two"):
        with log_to_file(tmp_path / "log.txt"):
            LOG.warning(text)
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["one", "two"]


def test_a_process_that_does_not_speak_shows_warnings_only(capsys):
    log_to_screen(is_main=False)
    LOG.info("hello")
    LOG.warning("look here")
    assert capsys.readouterr().out == "look here\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_log_that_cannot_be_written_is_said_once_without_a_traceback(capsys):
    log_to_screen()
    with log_to_file(Path("/dev/full")):
        LOG.info("one")
        LOG.info("two")
    captured = capsys.readouterr()
    assert captured.out == "one\ntwo\n"
    assert re.fullmatch(".*cannot write /dev/full.*No space left.*\n", captured.err)


def test_the_log_holds_no_control_character_of_a_file_name_and_no_endless_message(tmp_path, capsys):
    log_to_screen()
    name = "\x1b]0;title\x07\u202ex\udcff.flac"
    with log_to_file(tmp_path / "log.txt"):
        LOG.warning("%s is broken", name)
        LOG.info("x" * 1_000_000)
    shown = r"\x1b]0;title\x07\u202ex\udcff.flac is broken"
    screen, file = capsys.readouterr().out, (tmp_path / "log.txt").read_text()
    assert screen.splitlines()[0] == shown
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (.*)", file.splitlines()[0])[1] == shown
    assert "\n... 980,000 characters of this message are left out ...\n" in screen
    assert len(screen) < 20_200 and len(file) < 20_300


def test_progress_lines_come_every_n_items(capsys):
    log_to_screen()
    assert list(track(range(7), 7, "scoring dev", lines_every=3, unit="batches")) == list(range(7))
    lines = capsys.readouterr().out.splitlines()
    shown = [line.rpartition(",")[0] for line in lines]
    assert shown == ["scoring dev: 3 of 7", "scoring dev: 6 of 7"]
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
