"""The command audit, as a user runs it."""

import json

import pytest

import asdf.extras.audit.auditing as auditing
import asdf.extras.audit.measuring as measuring
from asdf.__main__ import main
from tests.extras.audit.conftest import write_corpus


def quiet(samples, rng):
    return 0.1 * samples


def test_a_corpus_with_a_shortcut_ends_with_1(tmp_path, capsys) -> None:
    table = write_corpus(tmp_path / "corpus", quiet, count=40)
    page, record = tmp_path / "audit.html", tmp_path / "audit.json"
    words = ["audit", str(table), "-o", str(page), "-o", str(record), "--workers", "0"]
    assert main([*words, "--no-joint", "--replicates", "20"]) == 1
    shown = capsys.readouterr().out
    assert "shortcut: level of speech alone has an EER of 0.00 %" in shown
    assert "level of speech" in page.read_text()
    features = json.loads(record.read_text())["features"]
    assert features[0]["eer"] == 0.0
    # Only shortcuts have advice and settings against them.
    assert {bool(one["advice"]) for one in features if one["is_shortcut"]} == {True}
    assert not any(one["advice"] or one["settings"] for one in features if not one["is_shortcut"])
    assert not list(tmp_path.glob(".*.progress"))


@pytest.mark.slow
def test_a_clean_corpus_ends_with_0_with_processes_as_without(tmp_path, capsys) -> None:
    table = write_corpus(tmp_path / "corpus", count=40, seed=5)
    outputs = []
    for workers in ("0", "2"):
        path = tmp_path / f"{workers}.json"
        words = ["audit", str(table), "--json", str(path), "--workers", workers]
        assert main([*words, "--no-joint", "--replicates", "20"]) == 0
        record = json.loads(path.read_text())
        del record["made_by"]
        outputs.append(record)
    assert outputs[0] == outputs[1]
    assert "nothing was found." in capsys.readouterr().out


def test_a_killed_process_is_one_message(tmp_path, capsys, killed_workers) -> None:
    table = write_corpus(tmp_path / "corpus", count=20)
    assert main(["audit", str(table), "--json", str(tmp_path / "a.json"), "--workers", "1"]) == 1
    assert "error: a worker process was killed, likely by the system" in capsys.readouterr().err


def test_what_was_measured_before_a_stop_is_not_measured_again(
    tmp_path, capsys, monkeypatch
) -> None:
    table = write_corpus(tmp_path / "corpus", count=20)
    words = ["audit", str(table), "--json", str(tmp_path / "a.json"), "--workers", "0"]
    words += ["--no-joint", "--replicates", "20"]
    measured = []
    original = measuring.measure

    def stopped(path):
        if len(measured) == 12:
            raise KeyboardInterrupt
        measured.append(path)
        return original(path)

    def stopped_at_once(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "measure", stopped)
    assert main(words) == 130
    monkeypatch.setattr(measuring, "measure", lambda path: measured.append(path) or original(path))
    # A second stop, while the features are compared.
    with monkeypatch.context() as patch:
        patch.setattr(auditing, "audit_recordings", stopped_at_once)
        assert main(words) == 130
    assert len(measured) == len(set(measured)) == 20
    assert "resuming: 12 recordings were measured before" in capsys.readouterr().err
    main(words)
    assert len(measured) == 20
    assert "resuming: 20 recordings were measured before" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*.progress"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["audit"], "no list is given"),
        (["audit", "x.txt", "--limit", "60"], "give an EER above 0 and below 50 %"),
        (["audit", "x.txt", "--limit", "0"], "give an EER above 0 and below 50 %"),
        (["audit", "missing.txt"], "there is no list, folder or corpus missing.txt"),
    ],
)
def test_mistakes_are_one_message(words, message, capsys) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_list_of_one_class_is_refused_before_anything_is_read(
    tmp_path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = write_corpus(tmp_path / "corpus", count=6)
    lines = [line for line in table.read_text().splitlines() if "\t0\t" not in line]
    table.write_text("\n".join(lines) + "\n")
    assert main(["audit", str(table), "--workers", "0", "--no-joint"]) == 1
    assert "an audit compares two classes: 3 bona fide and 0" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*.progress"))
