"""`python -m asdf launch` with real runs on the CPU that fail, are stopped, killed and go on."""

import json
import signal
import statistics
import time
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S

HELD = '''
import time
from pathlib import Path

from small_networks import Plain


class Held(Plain):
    """Waits in its second epoch for as long as there is a file `hold` next to the recipe."""

    def forward(self, waveforms_BT):
        outputs = super().forward(waveforms_BT)
        if self.training and self.passes == 9:
            while Path(__file__).with_name("hold").exists():
                time.sleep(0.02)
            time.sleep(1.1)  # the stop file is looked for once a second
        return outputs
'''

CONFIGS = """
held < debug
network.network_class = 'held_networks.Held'
paths.system_folder = 'held'

broken < debug
network.network_class = 'small_networks.Missing'
paths.system_folder = 'broken'
"""


def launch(recipe, *words):
    if not (recipe.folder / "held_networks.py").exists():
        (recipe.folder / "held_networks.py").write_text(HELD)
        recipe.add_configs(CONFIGS)
    return [recipe.python(), "-m", "asdf", "launch", str(recipe.folder / "run.py"), *words]


def state(system: Path) -> str:
    path = system / "launch.json"
    return json.loads(path.read_text())["state"] if path.exists() else "never started"


def starts(system: Path) -> int:
    return sum(line.startswith("--- ") for line in (system / "launch.log").read_text().splitlines())


def wait_for(process, condition) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_one_fails_and_the_others_finish_and_only_it_is_run_again(recipe):
    page = recipe.folder / "page.html"
    words = ("debug", "broken", "normed", "network.max_epochs=2", "--report", str(page))
    command = launch(recipe, *words, "--slots", "2")
    folders = {"debug": "system1", "broken": "broken", "normed": "normed"}
    systems = {name: recipe.system(folder) for name, folder in folders.items()}
    first = recipe.run_command(command)
    assert first.status == 1, first.output
    assert "3 runs: 2 done, 1 failed" in first.output
    # A page without the third would be taken for all of them.
    assert "no report yet: 1 of 3 runs are unfinished" in first.output and not page.exists()
    failed = first.output[first.output.index("broken failed: ") :].splitlines()
    assert "Missing" in failed[0]
    assert failed[1].strip() == f"log: {systems['broken'] / 'launch.log'}"
    assert [state(system) for system in systems.values()] == ["done", "failed", "done"]
    rows = [line.split() for line in first.output.splitlines()]
    assert ["config", "epoch", "demo-dev", "demo-eval"] in rows
    for name in ("debug", "normed"):
        eers = [f"{100 * row['eer']:.3f}" for row in recipe.results(system=folders[name])]
        assert [name, "epoch.2", *eers] in rows

    again = recipe.run_command(command)
    assert again.status == 1
    assert [starts(system) for system in systems.values()] == [1, 2, 1]
    table = first.output[first.output.index("EER %") :].split("broken failed")[0]
    assert table in again.output


@pytest.mark.slow
def test_configs_and_seeds_are_a_grid_of_runs_that_grows(recipe, capsys):
    words = ("debug", "norm*", "network.max_epochs=1", "recipe.evaluation_sets=('demo-dev',)")
    systems = {}
    for config, folder in (("debug", "system1"), ("normed", "normed")):
        for seed in range(3):
            systems[f"{config}-seed{seed}"] = recipe.system(f"{folder}-seed{seed}")
    first = recipe.run_command(launch(recipe, *words, "--seeds", "0-1", "--slots", "2")).ok()
    assert "4 runs: 2 configs x 2 seeds" in first.output and "4 runs: 4 done" in first.output
    eers = {}
    for name, system in systems.items():
        if name.endswith("2"):
            assert not system.exists()
            continue
        (row,) = json.loads((system / "results" / "results.json").read_text())
        eers[name] = f"{100 * row['eer']:.3f}"
        assert f"recipe.seed = {name[-1]}  " in (system / "settings.py").read_text()
    rows = [line.split() for line in first.output.splitlines()]
    for name, eer in eers.items():
        assert [name, "epoch.1", eer] in rows
    paths = [system / "networks" / "epoch.1.pt" for system in systems.values()]
    assert len({path.read_bytes() for path in paths if path.exists()}) == 4

    # A run by hand is a run: the wider launch takes it over, as it does those that it made.
    by_hand = ("recipe.seed=2", "paths.system_folder='system1-seed2'", *words[2:])
    recipe.call(capsys, "debug", *by_hand).ok()
    page, table = recipe.folder / "study.html", recipe.folder / "study.tex"
    outputs = ("--report", str(page), "--latex", str(table))
    command = launch(recipe, *words, "--seeds", "0-2", "--slots", "1", *outputs)
    wider = recipe.run_command(command).ok()
    assert "6 runs: 6 done" in wider.output, wider.output
    started = [name for name, system in systems.items() if (system / "launch.log").exists()]
    assert started == [name for name in systems if name != "debug-seed2"]
    assert {starts(systems[name]) for name in started} == {1}

    for config in ("debug", "normed"):
        percents = []
        for seed in range(3):
            (row,) = recipe.results(system=systems[f"{config}-seed{seed}"].name)
            percents.append(100 * row["eer"])
        for statistic in (statistics.mean, statistics.stdev):
            shown = f"{statistic(percents):.2f}"
            assert shown in table.read_text() and shown in page.read_text()


@pytest.mark.slow
def test_a_killed_launcher_takes_its_runs_along_and_the_next_goes_on(recipe):
    command = launch(recipe, "debug", "held", "--slots", "2")
    system, held, hold = recipe.system(), recipe.system("held"), recipe.folder / "hold"
    hold.touch()
    process = recipe.start_command(command)
    trained = held / "networks" / "epoch.1.pt"
    wait_for(process, lambda: state(system) == "done" and trained.exists())
    process.kill()
    process.wait()
    assert state(held) == "running"
    hold.unlink()
    # The run of the killed launcher may still be saving: it is waited for.
    outcome = recipe.run_command(command).ok()
    log = (held / "launch.log").read_text()
    assert "stopped by signal SIGTERM after step" in log
    assert "going on from resume.pt: epoch 1" in log
    assert "another run is using" not in log
    assert (starts(system), starts(held)) == (1, 2)
    assert (held / "networks" / "epoch.3.pt").exists() and "2 runs: 2 done" in outcome.output


@pytest.mark.slow
def test_a_stopped_launcher_has_all_processes_save_and_end(recipe):
    words = ("--slots", "1", "--processes-per-run", "2", "network.minibatch_size=2")
    command = launch(recipe, "held", "normed", *words)
    held, hold = recipe.system("held"), recipe.folder / "hold"
    hold.touch()
    process = recipe.start_command(command)
    wait_for(process, lambda: (held / "networks" / "epoch.1.pt").exists())
    process.send_signal(signal.SIGTERM)
    wait_for(process, (held / "launch.stop").exists)
    hold.unlink()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "unfinished: held, normed." in output and "2 runs: 1 stopped, 1 waiting" in output
    assert "stopped by the stop file" in (held / "launch.log").read_text()
    assert (held / "networks" / "resume.pt").exists() and not (held / "owner.lock").exists()
    assert not (held / "launch.stop").exists()
    assert (state(held), state(recipe.system("normed"))) == ("stopped", "never started")
