"""The audit file: each line follows from the one before, and no verdict is without its line."""

import hashlib
import io
import json
import multiprocessing
import os
from pathlib import Path

import pytest
import soundfile

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.service.audit_file import FIRST, AuditFile, check_audit_file, hash_of
from tests.unit.conftest import sound
from tests.unit.service.conftest import running


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    audit = AuditFile(path)
    for number in range(5):
        audit.add({"verdict": "spoof", "score": -number / 3})
    audit.close()
    return path


def test_each_hash_is_of_its_line_and_the_one_before(path):
    previous = "0" * 64
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        assert entry["previous"] == previous
        stated = entry.pop("hash")
        # What jq -cS writes of it.
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == stated
        previous = stated
    assert check_audit_file(path).last == previous
    assert check_audit_file(path).lines == 5
    assert path.stat().st_mode & 0o077 == 0


def test_a_chain_goes_on_after_a_restart(path):
    audit = AuditFile(path)
    audit.add({"verdict": "bona fide"})
    audit.close()
    assert check_audit_file(path).lines == 6 and not check_audit_file(path).problem


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (
            lambda lines: [*lines[:2], lines[2].replace("spoof", "bona fide"), *lines[3:]],
            3,
            "changed",
        ),
        (lambda lines: lines[:2] + lines[3:], 3, "does not follow"),
        (lambda lines: [*lines[:3], lines[1], *lines[3:]], 4, "does not follow"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2, "does not follow"),
        (lambda lines: lines[1:], 1, "does not follow"),
        (lambda lines: [*lines[:4], "{}"], 5, "not a line of an audit file"),
        (lambda lines: [*lines[:4], lines[4].replace(",", ", ")], 5, "changed"),
    ],
)
def test_the_first_broken_line_is_named(path, capsys, change, line, words):
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    assert main(["audit-file", str(path)]) == 1
    err = capsys.readouterr().err
    assert f"line {line}: " in err and words in err
    assert f"{line - 1} lines before it are intact" in err


def test_a_line_in_another_encoding_is_broken_even_with_its_hash(tmp_path):
    entry = {"previous": FIRST, "verdict": "é"}
    text = json.dumps({**entry, "hash": hash_of(entry)}, ensure_ascii=False) + "\n"
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(text.encode("utf-16-be"))
    chain = check_audit_file(path)
    assert chain.lines == 0 and "changed" in chain.problem


def test_lines_that_were_cut_off_show_beside_a_noted_hash(path, capsys):
    assert main(["audit-file", str(path)]) == 0
    noted = capsys.readouterr().out.split()[-1]
    assert main(["audit-file", str(path), "--noted", noted]) == 0
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    assert main(["audit-file", str(path)]) == 0
    assert main(["audit-file", str(path), "--noted", noted]) == 1
    assert "cut off" in capsys.readouterr().err


def test_a_service_does_not_go_on_from_a_broken_end(path):
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4].replace("spoof", "bona fide")]) + "\n")
    with pytest.raises(AsdfError, match="last line"):
        AuditFile(path)
    path.write_text("a letter to my aunt")
    with pytest.raises(AsdfError, match="its last line is not from an audit file"):
        AuditFile(path)
    assert path.read_text() == "a letter to my aunt"


def test_what_a_kill_left_of_a_line_is_removed(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"asdf":"0.2')
    audit = AuditFile(path)
    audit.add({"verdict": None})
    audit.close()
    assert path.read_bytes().startswith(whole)
    assert check_audit_file(path).lines == 6


def test_a_full_disk_leaves_no_part_of_a_line(path, monkeypatch):
    audit = AuditFile(path)
    before = path.read_bytes()
    write = os.write

    def half(file, content):
        if len(content) < 100:
            raise OSError(28, "No space left on device")
        return write(file, content[: len(content) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            audit.add({"verdict": "spoof"})
    assert path.read_bytes() == before
    audit.add({"verdict": "spoof"})
    assert check_audit_file(path).lines == 6


def _add(path: Path, count: int) -> None:
    audit = AuditFile(path)
    for number in range(count):
        audit.add({"process": os.getpid(), "number": number})


def test_several_processes_write_one_chain(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(path, 20)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert check_audit_file(path) == check_audit_file(path)
    assert (check_audit_file(path).lines, check_audit_file(path).problem) == (60, "")
    numbers: dict[int, list[int]] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        numbers.setdefault(entry["process"], []).append(entry["number"])
    assert list(numbers.values()) == [list(range(20))] * 3


def test_a_file_that_cannot_be_read_is_one_line(tmp_path, capsys):
    assert main(["audit-file", str(tmp_path / "none")]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    empty = tmp_path / "empty"
    empty.touch()
    assert check_audit_file(empty).last == FIRST


def content_of(samples: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound(samples), 16000, format="WAV")
    return file.getvalue()


def test_a_service_records_each_verdict_before_it_answers(detector, tmp_path):
    path = tmp_path / "verdicts.jsonl"
    content = content_of(40_000)
    audit = AuditFile(path)
    with running(detector, audit=audit) as served:
        answers = [served.score(content).json for _ in range(3)]
        assert served.score(b"no recording").status == 422
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 3 and not check_audit_file(path).problem
    for line, answer in zip(lines, answers, strict=True):
        assert line["recording_sha256"] == hashlib.sha256(content).hexdigest()
        assert line["score"] == answer["recordings"][0]["score"]
        assert line["network_sha256"] == answer["made_by"]["network_sha256"]
        assert line["time"] == answer["made_by"]["date"]
    assert "path" not in lines[0] and "command" not in lines[0]


def test_no_verdict_is_given_without_its_line(detector, tmp_path, monkeypatch):
    path = tmp_path / "verdicts.jsonl"
    audit = AuditFile(path)
    content = content_of(40_000)

    def full(file):
        raise OSError(28, "No space left on device")

    with running(detector, audit=audit) as served:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            refused = served.score(content)
        assert refused.status == 503 and "no verdict" in refused.json["error"]
        headers = {name.lower(): value for name, value in refused.headers.items()}
        assert headers["retry-after"] == "60"
        assert path.read_bytes() == b""
        assert served.score(content).status == 200
    assert check_audit_file(path).lines == 1
