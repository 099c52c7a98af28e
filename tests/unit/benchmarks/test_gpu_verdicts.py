"""What makes a line of the acceptance run PASS or FAIL, and what its file says."""

import getpass
import json
import math
import socket
from pathlib import Path

import pytest
import torch

from asdf.settings.sections import Sections
from benchmarks.gpu import presence, rawboost, resume, values
from benchmarks.gpu.cases import Measured
from benchmarks.gpu.groups import GROUPS
from benchmarks.gpu.networks import build
from benchmarks.gpu.operations import _covered
from benchmarks.gpu.peaks import mfu, peak_flops
from benchmarks.gpu.report import write_report
from benchmarks.gpu.running import Outcome
from benchmarks.gpu.steps import lines_of
from benchmarks.gpu.verdict import (
    FAIL,
    NOT_RUN,
    PASS,
    at_least,
    at_most,
    equal,
    failed,
    measured,
    not_run,
)
from tests.conftest import ROOT

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (at_most("", 1.0, 1.0), PASS),
        (at_most("", 1.01, 1.0), FAIL),
        (at_most("", math.nan, 1.0), FAIL),
        (at_most("", -math.inf, 1.0), FAIL),
        (at_least("", 1.0, 1.0), PASS),
        (at_least("", 0.99, 1.0), FAIL),
        (at_least("", math.inf, 1.0), FAIL),
        (measured("", 7.0), PASS),
        (measured("", math.nan), FAIL),
        (equal("", "a", "a"), PASS),
        (equal("", "a", "b"), FAIL),
        (not_run("", "why"), NOT_RUN),
        (failed("", "why"), FAIL),
    ],
)
def test_verdicts(line, verdict):
    assert line.verdict == verdict
    json.dumps(line.as_json(), allow_nan=False)


def test_a_line_says_number_target_and_reason():
    line = at_most("peak", 9.876, 8.0, "GiB", "8.74 without a GPU")
    assert line.text() == "FAIL    peak = 9.88 GiB (target <= 8) - 8.74 without a GPU"


def test_published_logits_pass_on_the_cpu(tmp_path):
    line = values.published_on(CPU, values.FIXTURES)
    assert line.verdict == PASS and 0 <= line.value < 2e-5
    assert values.published_on(CPU, tmp_path).verdict == NOT_RUN


def test_a_network_passes_next_to_itself_and_a_changed_one_fails():
    line = values.fp32_on(CPU, "SSL_MHFA")
    assert (line.verdict, line.value) == (PASS, 0.0)
    network, changed = build("SSL_MHFA"), build("SSL_MHFA")
    with torch.no_grad():
        changed.back_end.output.weight.mul_(1.05)
    line = values.beside("", network, changed, CPU)
    assert line.verdict == FAIL and line.value > values.LIMIT


def test_rawboost_passes_on_the_cpu():
    for algo in (4, 8):
        assert rawboost.equality_on(CPU, algo, 8000).verdict == PASS


def test_time_in_which_a_kernel_runs_is_counted_once():
    assert _covered([(0.0, 4.0), (1.0, 2.0), (3.0, 5.0), (9.0, 10.0)]) == 6.0


@pytest.mark.parametrize(
    ("gpu", "precision", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4e12),
        ("NVIDIA H100 PCIe", "bf16", 756e12),
        ("NVIDIA A100-SXM4-40GB", "fp32", 19.5e12),
        ("Tesla V100-SXM2-32GB", "fp16", 125e12),
        ("Tesla V100-SXM2-32GB", "bf16", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "bf16", None),
        ("Some GPU", "bf16", None),
    ],
)
def test_peaks(gpu, precision, peak):
    assert peak_flops(gpu, precision) == peak


TIMES = {"ms": 40.0, "host_ms": 30.0, "busy_ms": 30.0, "first_s": 1.0, "utterances_per_s": 350.0}
MEMORY = {"peak_gib": 8.7, "reserved_gib": 9.0, "total_gib": 80.0}
STEPS = {"operations": 3618, "loss_scale": None, "skipped": 0, "dtype": "bfloat16"}
H100 = "NVIDIA H100 80GB HBM3"
FOUND = Measured(**TIMES, **MEMORY, **STEPS, gpu=H100, is_xlsr_aasist=True)


def test_a_step_has_its_share_of_the_peak_and_of_the_time():
    *_, busy, used = lines_of("14 clips", FOUND, 0.35)
    assert busy.value == 0.75
    # 2 x 3 x 75.1e9 x 350 of 989.4e12
    assert used.value == mfu(350.0, 989.4e12) == pytest.approx(0.1594, abs=1e-4)
    assert used.verdict == FAIL


def test_settings_that_do_not_exist_are_known():
    assert presence.has_setting("computing.tf32")
    assert presence.takes_value("computing.scoring_precision", "tf32")
    assert not presence.has_setting("computing.no_such_setting")
    assert not presence.has_setting("no_such_section.tf32")
    assert not presence.takes_value("computing.scoring_precision", "fp3")
    settings = presence.apply(Sections(), {"computing.precision": "fp16"})
    assert settings.computing.precision == "fp16"


def test_networks_are_compared_to_the_bit(tmp_path):
    weights = {"a": torch.tensor([1.0, math.nan]), "b": torch.tensor([0.0])}
    for name, b in (("one", 0.0), ("same", 0.0), ("other", -0.0)):
        content = {**weights, "b": torch.tensor([b])}
        torch.save({"model_state_dict": content}, tmp_path / name)
    assert resume.same_weights(tmp_path / "one", tmp_path / "same")
    assert not resume.same_weights(tmp_path / "one", tmp_path / "other")


def test_the_file_names_neither_the_machine_nor_its_user(tmp_path):
    private = [socket.gethostname(), str(Path.home() / "secret"), "/scratch/project_1/me/x.wav"]
    private += [str(ROOT / "asdf"), f"/srv/{getpass.getuser()}/x"]
    lines = [failed("check", f"cannot read '{name}' at 3 / 4 of it") for name in private]
    outcome = Outcome(GROUPS[0], [*lines, at_most("left", 1.0, 2.0)], 3.0)
    write_report(tmp_path / "r.json", {"line": "AMD EPYC"}, False, [outcome], "stopped")
    text = (tmp_path / "r.json").read_text()
    report = json.loads(text)
    reasons = [line["reason"] for line in report["groups"][0]["lines"]]
    for name, reason in zip(private, reasons, strict=False):
        assert f"'{name}" not in reason and reason.endswith("at 3 / 4 of it")
    assert "/scratch" not in text and "project_1" not in text
    assert reasons[0] == "cannot read '<host>' at 3 / 4 of it"
    assert reasons[3] == "cannot read '<checkout>/asdf' at 3 / 4 of it"
    assert report["counts"] == {PASS: 1, FAIL: 5, NOT_RUN: 0}
    assert "  PASS    left = 1.00 (target <= 2)" in report["report"]
    assert report["report"][-1] == "not begun: " + ", ".join(group.name for group in GROUPS[1:])
