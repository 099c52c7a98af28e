"""The table of a launch, on a terminal and elsewhere, and its sum at the end."""

import io
import os
import re
from pathlib import Path

import pytest

from asdf.launcher.states import Job, JobResult, Table, summary


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(text):
    """What a terminal shows after `text`, with its commands up, clear the line, clear below."""
    lines, row, column = [""], 0, 0
    for _, count, letter, character in re.findall(r"(\x1b\[(\d*)([AJK]))|([^\x1b])", text):
        if letter == "A":
            row -= int(count)
        elif letter == "K":
            lines[row] = lines[row][:column]
        elif letter == "J":
            lines[row:] = [lines[row][:column]]
        elif character == "\n":
            row, column = row + 1, 0
            lines += [""] * (row == len(lines))
        else:
            lines[row] = lines[row][:column] + character + lines[row][column + 1 :]
            column += 1
    return lines


def jobs(count):
    return [Job(f"net{i}", f"net{i}", [], Path("/out") / f"net{i}") for i in range(count)]


@pytest.fixture
def size(monkeypatch):
    def set_size(columns, lines):
        size = os.terminal_size((columns, lines))
        monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: size)

    return set_size


def test_a_terminal_shows_each_run_once_and_nothing_twice(size):
    size(60, 20)
    screen, (first, second) = Terminal(), jobs(2)
    table = Table(screen)
    table.show([first, second])
    first.state, first.detail = "running", "GPU 0, epoch 1.0, EER 12.500 %"
    table.show([first, second])
    before = len(screen.getvalue())
    table.show([first, second])
    assert len(screen.getvalue()) == before
    table.print_line("signal SIGINT")
    first.state, first.detail, second.state = "done", "", "failed"
    second.detail = "x" * 100
    rows = (("epoch.3", "dev", 0.125), ("epoch.3", "eval", 0.25), ("epoch.2", "dev", 0.5))
    first.results = [JobResult(*row) for row in rows]
    table.show([first, second])
    assert drawn(screen.getvalue()) == [
        "net0  running  GPU 0, epoch 1.0, EER 12.500 %",
        "net1  waiting",
        "signal SIGINT",
        "net0  done     EER of epoch.3: dev 12.500 %, eval 25.000 %",
        ("net1  failed   " + "x" * 100)[:59],
        "",
    ]


def test_more_runs_than_the_terminal_has_lines(size):
    size(80, 6)
    screen, many = Terminal(), jobs(10)
    for job in many[:7]:
        job.state = "done"
    many[7].state, many[8].state = "running", "failed"
    many[8].detail = "killed by SIGKILL (out of memory?)"
    table = Table(screen)
    table.show(many)
    assert drawn(screen.getvalue()) == [
        "net7  running",
        "net8  failed   killed by SIGKILL (out of memory?), log /out/net8/launch.log",
        "net9  waiting",
        "10 runs: 7 done, 1 waiting, 1 failed, 1 running",
        "",
    ]


def test_elsewhere_a_line_is_a_change_of_state():
    screen, (first, second) = io.StringIO(), jobs(2)
    table = Table(screen)
    table.show([first, second])
    first.state = "running"
    for epoch in range(3):
        first.detail = f"slot 0, epoch {epoch}"
        table.show([first, second])
    first.state, first.detail = "failed", "ValueError: broken"
    table.show([first, second])
    assert screen.getvalue().splitlines() == [
        "net0: running, log /out/net0/launch.log",
        "net0: failed, ValueError: broken, log /out/net0/launch.log",
    ]


def test_the_sum_has_a_row_for_each_network_and_a_column_for_each_set():
    first, second, third, fourth = jobs(4)
    first.state = second.state = "done"
    rows = (("best", "dev", 0.0123456), ("last", "dev", 0.5), ("last", "eval", 1.0))
    first.results = [JobResult(*row) for row in rows]
    second.results = [JobResult("epoch.3", "other", 0.0)]
    third.state, third.detail = "failed", "ValueError: broken"
    assert summary([first, second, third, fourth]).splitlines() == [
        "4 runs: 2 done, 1 waiting, 1 failed",
        "EER %",
        "config  epoch       dev     eval  other",
        "net0    best      1.235        -      -",
        "net0    last     50.000  100.000      -",
        "net1    epoch.3       -        -  0.000",
        "net2 failed: ValueError: broken",
        "  log: /out/net2/launch.log",
        "unfinished: net3. The same command continues them.",
    ]


def test_other_metrics_that_chose_networks_have_tables_behind_the_eers():
    first, second = jobs(2)
    first.state = second.state = "done"
    first.results = [JobResult("best", "dev", 0.25, "auc", 0.75), JobResult("best", "eval", 0.5)]
    second.results = [JobResult("best", "dev", 0.125)]
    assert summary([first]).startswith("1 run: 1 done\n")
    assert summary([first, second]).splitlines() == [
        "2 runs: 2 done",
        "EER %",
        "config  epoch     dev    eval",
        "net0    best   25.000  50.000",
        "net1    best   12.500       -",
        "auc",
        "config  epoch     dev",
        "net0    best   0.7500",
    ]
    screen = io.StringIO()
    Table(screen).show([first])
    assert "EER of best: dev 25.000 % (auc 0.7500), eval 50.000 %" in screen.getvalue()


def test_control_characters_in_what_a_run_said_do_not_reach_the_screen(size):
    size(80, 20)
    (job,) = jobs(1)
    job.state, job.detail = "stopped", "\x1b]0;title\x07\u202e\nlast"
    terminal, lines = Terminal(), io.StringIO()
    Table(terminal).show([job])
    Table(lines).show([job])
    assert drawn(terminal.getvalue())[0] == r"net0  stopped  \x1b]0;title\x07\u202e\nlast"
    assert lines.getvalue() == "net0: stopped, \\x1b]0;title\\x07\\u202e\nlast\n"
