"""How waiting for data is measured, and what is said of it."""

import pytest
import torch

from asdf.training import profile as clocks
from asdf.training.profile import BACKWARD, DATA, FORWARD, PARTS, REST, StepClock
from asdf.training.progress_lines import DataWait


def seconds(waited: float, total: float) -> dict[str, float]:
    return {**dict.fromkeys(PARTS, 0.0), DATA: waited, FORWARD: total - waited}


@pytest.mark.parametrize(
    ("workers", "cores", "remedy"),
    [
        (0, 16, "raise computing.network_dataloader_workers (now 0 of 16 cores)"),
        (2, 16, "raise computing.network_dataloader_workers (now 2 of 16 cores)"),
        (4, 4, "the 4 cores of this process can read no faster. Ask for more cores, keep"),
        (0, 1, "the 1 core of this process can read no faster. Ask for more cores, keep"),
    ],
)
def test_the_advice_fits_the_case(workers, cores, remedy):
    line = DataWait(workers, cores).advice(seconds(20.4, 60.0), steady=True)
    assert line.startswith(f"waiting for data took 34 % of the time: {remedy}")


def test_advice_comes_once_and_only_when_much_of_half_a_minute_was_waited():
    wait = DataWait(2, 16)
    assert wait.advice(seconds(25, 29), steady=True) == ""  # too early to tell
    assert wait.advice(seconds(0, 300), steady=True) == ""  # 7.6 %
    assert wait.advice(seconds(900, 1000), steady=False) == ""  # the workers start
    assert wait.advice(seconds(25, 71), steady=True).startswith(
        "waiting for data took 12 % of the time"
    )
    assert wait.advice(seconds(900, 1000), steady=True) == ""


def test_the_parts_of_the_clock_are_all_of_the_time(monkeypatch):
    """The clock is read at 0, 1, 2, ... hundred seconds, as if each reading took that long."""
    readings = iter(range(0, 10_000, 100))
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: next(readings))
    clock = StepClock(torch.device("cpu"))
    clock.restart()  # 0
    for part in (DATA, FORWARD, BACKWARD):  # 100 to 200, 300 to 400, 500 to 600
        with clock.part(part):
            pass
    passed = clock.seconds()
    assert passed == {**dict.fromkeys(PARTS, 0), DATA: 100, FORWARD: 100, BACKWARD: 100, REST: 300}
    assert clock.seconds(wait=True)[REST] == 400
    clock.restart()
    assert sum(clock.seconds().values()) == 0


@pytest.mark.real_gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: pytest -m real_gpu")
def test_on_a_gpu_the_parts_are_those_of_its_own_time():
    device = torch.device("cuda")
    clock, matrix = StepClock(device), torch.ones(2000, 2000, device=device)
    (matrix @ matrix).sum().item()
    clock.restart()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(20):
        with clock.part(FORWARD):
            for _ in range(10):
                matrix @ matrix
    last.record()
    passed = clock.seconds(wait=True)
    assert sum(passed.values()) == pytest.approx(first.elapsed_time(last) / 1000, rel=0.2)
    assert passed[DATA] == passed[BACKWARD] == 0 and passed[FORWARD] > 0
