"""`python -m benchmarks gpu` from start to end; values are garbage, waits and counts a GPU's."""

import json
import os
import subprocess

import pytest

from tests.conftest import ROOT

# Whole recipes, killed runs and a Trainer take minutes.
SLOW_GROUPS = ["peers", "scoring", "quickstart", "resume"]
GROUPS = [
    *("machine", "values", "waits", "counts", "steps", "kernels"),
    *("bits", "memory", "options", "rawboost", "fp16", "processes"),
]


@pytest.fixture
def acceptance(null_gpu, warm, tmp_path):
    """Run groups in a small size; the lines of each by what they are about."""

    def run(groups: list[str]) -> tuple[int, dict[str, dict[str, dict]]]:
        words = ["--quick", "--patience", "20", "--output", str(tmp_path), "--only", *groups]
        done = subprocess.run(
            [warm(), "-m", "benchmarks", "gpu", *words],
            cwd=ROOT,
            env={**os.environ, **null_gpu()},
            capture_output=True,
            text=True,
            timeout=840,
        )
        path = tmp_path / "asdf-gpu-report.json"
        assert path.exists(), done.stderr
        report = json.loads(path.read_text())
        assert report["state"] == "finished" and done.stdout.endswith(f"{path}\n")
        lines = {}
        for group in report["groups"]:
            lines[group["name"]] = {line["what"]: line for line in group["lines"]}
        return done.returncode, lines

    return run


def verdicts(lines: dict[str, dict], part: str = "") -> set[str]:
    return {line["verdict"] for what, line in lines.items() if part in what}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_of_it_runs_and_only_values_fail(acceptance):
    status, lines = acceptance(GROUPS)
    assert status == 1
    assert list(lines) == GROUPS
    kernels = lines["machine"]["torch has kernels for GPU 0, Null GPU"]
    assert kernels["verdict"] == "PASS" and kernels["value"].startswith("9.0 in sm_75")
    assert verdicts(lines["values"], "from the CPU") == {"FAIL"}
    assert verdicts(lines["values"], "published") == {"FAIL"}
    assert verdicts(lines["rawboost"], "difference") == {"FAIL"}
    assert len(lines["waits"]) == 9 and verdicts(lines["waits"]) == {"PASS"}
    assert len(lines["counts"]) == 3 and verdicts(lines["counts"]) == {"PASS"}
    for name in ("2 clips, bf16", "2 clips, fp16", "2 clips, fp32", "3 clips"):
        assert lines["steps"][f"{name}: operations of a step"]["value"] > 500
        busy = lines["steps"][f"{name}: busy share"]
        assert (busy["verdict"], busy["reason"]) == ("NOT RUN", "this GPU has no clock")
    taken = lines["kernels"]["attention of 2 x 64 frames: taken"]
    assert (taken["verdict"], taken["value"]) == ("PASS", "FLASH_ATTENTION")
    # Each case again and with graphs, and as it is; weights are garbage, before the first step.
    compared = {line["value"] for line in lines["bits"].values()}
    assert len(lines["bits"]) == 9 and compared <= {"same bits", "other bits"}
    assert verdicts(lines["kernels"], "first step") == {"PASS"}
    for group in ("steps", "memory", "options"):
        assert "FAIL" not in verdicts(lines[group]), lines[group]
    assert verdicts(lines["processes"]) == {"NOT RUN"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_groups_of_whole_runs_end_and_measure(acceptance):
    _, lines = acceptance(SLOW_GROUPS)
    assert list(lines) == SLOW_GROUPS
    assert len(lines["scoring"]) == 10 and verdicts(lines["scoring"]) == {"PASS"}
    for precision in ("fp32", "tf32", "bf16"):
        for name in ("demo-dev", "demo-eval"):
            what = "EER" if precision == "fp32" else "change of the EER"
            assert f"scoring in {precision}, {name}: {what}" in lines["quickstart"]
    for group in SLOW_GROUPS:
        for line in lines[group].values():
            # A check that ends in an error of the program is named by its class.
            assert "Error" not in str(line["reason"]), line
