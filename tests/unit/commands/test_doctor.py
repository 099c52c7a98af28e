"""`python -m asdf doctor`: every row has a status, and the exit status is that of the worst."""

import io
import json

from asdf.__main__ import main
from asdf.doctor import command as doctor
from asdf.doctor.command import MISSING, OK, WARNING, Finding


def test_a_finding_is_a_line_and_how_to_mend_it_another():
    stream = io.StringIO()
    path = "/a/long/path/that/stays/whole/" + 9 * "to-be-copied/"
    findings = [
        Finding("GPU", WARNING, "none", "ask for one"),
        Finding("torch", MISSING, f"broken in {path}"),
        Finding("cores", OK, "2"),
    ]
    assert doctor.show_findings(iter(findings), stream) == findings
    assert stream.getvalue().splitlines() == [
        "warning   GPU: none",
        "          -> ask for one",
        "missing   torch: broken in",
        f"          {path}",
        "ok        cores: 2",
        "3 checks: 1 missing, 1 with a warning",
    ]


def test_this_machine_is_examined_and_the_json_is_alone_on_the_screen(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status = main(["doctor", "--json", "-"])
    shown = capfd.readouterr()
    record = json.loads(shown.out)
    assert record["version"].startswith("asdf-antispoofing 0.2.0, torch ")
    statuses = {row["name"]: row["status"] for row in record["findings"]}
    assert {"Python", "ASDF", "torch", "torchaudio", "libsndfile", "cores"} <= set(statuses)
    assert statuses["torch"] == statuses["torchaudio"] == statuses["libsndfile"] == OK
    assert f"folder {tmp_path}" in statuses
    assert status == int(MISSING in statuses.values())
    assert f"{len(record['findings'])} checks: " in shown.err
