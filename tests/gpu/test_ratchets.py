"""The costs that documents state are those that a step is held to."""

import json
import re

from tests.conftest import ROOT
from tests.gpu.ratchets import FOLDER

STEPS = (
    "step of XLS-R 300M",
    "step of XLS-R 300M, norms in bf16",
    "step of XLS-R 300M in WavLM large's layout",
)


def operations(version: str) -> list[str]:
    costs = json.loads((FOLDER / f"torch-{version}.json").read_text())
    return [f"{costs[step]['operations']:,.0f}" for step in STEPS]


def test_the_page_has_the_operations_of_both_versions_of_torch():
    page = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    xls_r, short, wavlm = operations("2.14")
    assert f"| XLS-R 300M + AASIST | {xls_r} |" in page
    assert f"| the same, `computing.norms='bf16'` | {short} |" in page
    assert f"| WavLM large + AASIST | {wavlm} |" in page
    stated = re.search(r"torch 2\.11 queues (.+?) for WavLM large", page, re.DOTALL)
    assert re.findall(r"\d,\d{3}", stated[1]) == operations("2.11")
