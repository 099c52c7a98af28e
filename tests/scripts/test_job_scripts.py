"""The job scripts on a real Slurm of two nodes, without GPUs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT
from tests.scripts.conftest import SCRIPTS
from tests.scripts.slurm_lab import Job

SITES = sorted(path.stem for path in (SCRIPTS / "sites").glob("*.sh"))
KINDS = sorted(path.stem for path in (SCRIPTS / "kinds").glob("*.sh"))
JOB_SCRIPTS = [SCRIPTS / f"{site}_{kind}.sh" for site in SITES for kind in KINDS]
CPUS_PER_GPU = {"puhti": 10, "roihu": 72, "lumi": 7}

# Prints what reached it, and which GPUs; with the word `wait` it runs until a stop is requested.
STUB = """
import json, os, sys, time
words = sys.argv[1:]
gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
started_by = os.environ.get("STARTED_BY", "")
text = json.dumps(words) + "\\nGPUs " + gpus + "\\nstarted by " + started_by + "\\n"
os.write(1, text.encode())
while "wait" in words and not os.path.exists(os.environ["ASDF_STOP_FILE"]):
    time.sleep(0.1)
sys.exit(3 if "fail" in words else 0)
"""

# A site as a user would write one: another Python, no module; GPUs are asked for as on LUMI.
SITE = """
site_name=Mine
account=me
partition=gpu
time=01:00:00
gpu_test_time=00:05:00
gpus_per_node=2
cpus_per_gpu=3
gb_per_gpu=5
gpu_option() { echo "--gpus-per-node=$1"; }
load_site() { python=(env STARTED_BY=load_site "$TEST_PYTHON"); }
local_disk=
local_disk_advice="there is none"
"""

# As users of the first version have copied and changed one.
FIRST_VERSION = """#!/bin/bash
#SBATCH --signal=B:USR2@600
python_module=pytorch
local_disk=${LOCAL_SCRATCH:-}
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
on_one_node "$@"
"""

# With TEST_HOLD it waits in the second step of a job's first start for the stop file.
HELD = """
import os, time
from pathlib import Path
from small_networks import Normed

class Held(Normed):
    def embed(self, waveforms_BT):
        self.steps = getattr(self, "steps", 0) + self.training
        restarted = "SLURM_RESTART_COUNT" in os.environ
        held = self.steps == 2 and "TEST_HOLD" in os.environ and not restarted
        if held:
            Path(os.environ["TEST_HOLD"]).touch()
        while held and not Path(os.environ["ASDF_STOP_FILE"]).exists():
            time.sleep(0.1)
        return super().embed(waveforms_BT)
"""


@pytest.fixture
def stub(tmp_path):
    path = tmp_path / "stub.py"
    path.write_text(STUB)
    return {"ASDF_RECIPE": str(path)}


def words_in(output: str) -> list[list[str]]:
    """What each stub was called with."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("[")]


def test_shellcheck():
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck here")
    files = [str(path.relative_to(ROOT)) for path in SCRIPTS.rglob("*.sh")]
    done = subprocess.run(
        ["shellcheck", "--external-sources", *files], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def options_of(script: Path) -> dict[str, str]:
    """The #SBATCH lines of a script."""
    lines = re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", script.read_text(), re.MULTILINE)
    return dict(lines)


@pytest.mark.parametrize("script", JOB_SCRIPTS, ids=lambda path: path.stem)
def test_headers_ask_for_the_cpus_of_their_gpus_and_can_be_stopped(script):
    site, _, kind = script.stem.partition("_")
    options = options_of(script)
    request = options.get("gres", f"gpu:{options.get('gpus-per-node', '')}")
    gpus = int(re.match(r"gpu:(?:v100:|gh200:)?(\d)", request)[1])
    cpus = int(options["ntasks-per-node"]) * int(options["cpus-per-task"])
    assert cpus == gpus * CPUS_PER_GPU[site]
    assert ("nvme" in request) == (site == "puhti")
    assert {"requeue", "account", "mem", "time"} <= set(options)
    assert options["open-mode"] == "append" and options["signal"].startswith("B:USR2@")
    assert (gpus == 1) == (kind in ("array", "gpu_test"))
    assert (int(options["ntasks-per-node"]) == gpus > 1) == (kind == "side_by_side")


def test_partitions_of_lumi():
    """As of docs.lumi-supercomputer.eu, Slurm partitions: full nodes, or parts of them."""
    partitions = {kind: options_of(SCRIPTS / f"lumi_{kind}.sh")["partition"] for kind in KINDS}
    assert partitions.pop("two_nodes") == "standard-g"
    assert partitions.pop("gpu_test") == "dev-g"
    assert set(partitions.values()) == {"small-g"}
    assert options_of(SCRIPTS / "lumi_one_node.sh")["gpus-per-node"] == "8"


def copy_scripts(folder: Path) -> Path:
    copy = folder / "puhti_slurm_scripts"
    shutil.copytree(SCRIPTS, copy)
    return copy


def test_the_scripts_are_what_their_sites_and_kinds_make(tmp_path):
    copy = copy_scripts(tmp_path)
    done = subprocess.run(
        ["bash", copy / "make_scripts.sh", *SITES], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_text() for path in copy.glob("*.sh")}
    assert made == {path.name: path.read_text() for path in SCRIPTS.glob("*.sh")}
    assert not list(copy.glob(".*"))


def test_a_site_that_does_not_exist(tmp_path):
    copy = copy_scripts(tmp_path)
    done = subprocess.run(
        ["bash", copy / "make_scripts.sh", "nosuch"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "there is no" in done.stderr


@pytest.mark.slow
def test_a_site_of_the_users_is_one_file(lab, stub, tmp_path):
    """Its Python and its options; a script of the first version, without a site, still runs."""
    copy = copy_scripts(tmp_path)
    (copy / "sites" / "mine.sh").write_text(SITE)
    subprocess.run(["bash", copy / "make_scripts.sh", "mine"], check=True)
    made = options_of(copy / "mine_side_by_side.sh")
    assert (made["cpus-per-task"], made["mem"], made["ntasks-per-node"]) == ("3", "10G", "2")
    assert options_of(copy / "mine_gpu_test.sh")["time"] == "00:05:00"
    assert options_of(copy / "mine_two_nodes.sh")["gpus-per-node"] == "2"
    (copy / "first.sh").write_text(FIRST_VERSION)
    inside = replace(lab, scripts=copy, folder=tmp_path)
    job = inside.submit("mine_gpu_test.sh", [], "net", TEST_PYTHON=sys.executable, **stub)
    side = inside.submit("mine_side_by_side.sh", [], "a", "b", TEST_PYTHON=sys.executable, **stub)
    first = inside.submit("first.sh", ["--output=first-%j.out"], "net", "x=1", **stub)
    assert job.wait().state == "COMPLETED", job.output
    assert words_in(job.output) == [["net"]] and "started by load_site" in job.output
    assert first.wait().state == "COMPLETED", first.output
    assert words_in(first.output) == [["net", "x=1"]]
    assert side.wait().state == "COMPLETED", side.output
    logs = [(tmp_path / f"asdf-side-{side.id}-run{number}.out").read_text() for number in (0, 1)]
    gpus = re.findall(r"^GPUs (.*)$", "".join(logs), re.MULTILINE)
    assert len(set(gpus)) == 2 and all(re.fullmatch("[0-3]", gpu) for gpu in gpus)


@pytest.mark.slow
def test_lumi_runs_python_in_its_container(lab, stub, tmp_path):
    """With a stand-in for singularity, which says what it was started with."""
    image = tmp_path / "image.sif"
    image.touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "singularity").write_text('#!/bin/sh\necho "$1 $2 $3"\nshift 2\nexec "$@"\n')
    (programs / "singularity").chmod(0o755)
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "ASDF_CONTAINER": str(image), **stub}
    options = ["--partition=gpu", "--gpus-per-node=1"]
    job = lab.submit("lumi_gpu_test.sh", options, "net", **variables)
    venv = {"ASDF_VENV": str(Path(sys.prefix))}
    inside = lab.submit("lumi_gpu_test.sh", options, "net", **variables, **venv)
    missing = lab.submit("lumi_gpu_test.sh", options, "net", **{**variables, "ASDF_CONTAINER": "x"})
    assert job.wait().state == "COMPLETED", job.output
    assert words_in(job.output) == [["net"]] and f"run {image} python3" in job.output
    assert inside.wait().state == "COMPLETED", inside.output
    assert f"run {image} {sys.prefix}/bin/python3" in inside.output
    assert missing.wait().status == 2 and "there is no container x" in missing.output


def test_slurm_accepts_the_headers_for_puhti(lab):
    for script in JOB_SCRIPTS:
        if script.name.startswith("puhti"):
            done = subprocess.run(
                ["sbatch", "--test-only", script], cwd=lab.folder, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{script.name}: {done.stderr}"


@pytest.mark.slow
def test_arguments_arrive_unharmed(lab, stub):
    hard = ["a b", "a", "a b", "*", "x='y z'", "$HOME", "x='y z'", "--dry-run", "", "a"]
    job = lab.submit("puhti_one_node.sh", [], *hard, **stub)
    array = lab.submit(
        "puhti_array.sh",
        ["--array=0-3"],
        "a b",
        "a",
        "a b",
        "--",
        "x='y z'",
        "x='y z'",
        "--",
        **stub,
    )
    two = ["--ntasks-per-node=2", "--gres=gpu:v100:2"]
    side = lab.submit("puhti_side_by_side.sh", two, "a", "a b", "a", "--", "x='y z'", **stub)
    assert job.wait().state == "COMPLETED", job.output
    assert words_in(job.output) == [hard]
    for number, config in enumerate(("a b", "a", "a b")):
        task = Job(f"{array.id}_{number}")
        assert task.wait().state == "COMPLETED", task.output
        assert words_in(task.output) == [[config, "x='y z'", "x='y z'", "--"]]
    beyond = Job(f"{array.id}_3")
    assert beyond.wait().status == 2 and "use --array=0-2" in beyond.output
    assert side.wait().state == "COMPLETED", side.output
    logs = [
        (lab.folder / f"asdf-side-{side.id}-run{number}.out").read_text() for number in range(3)
    ]
    own = "computing.gpu_ids=None"
    assert [words_in(log) for log in logs] == [
        [[own, config, "x='y z'"]] for config in ("a", "a b", "a")
    ]
    assert all(re.search(r"^GPUs [01]$", log, re.MULTILINE) for log in logs)


@pytest.mark.slow
def test_a_failure_is_the_failure_of_the_job(lab, stub):
    job = lab.submit("puhti_side_by_side.sh", ["--ntasks-per-node=2"], "fail", "a", **stub)
    mixed = lab.submit("puhti_side_by_side.sh", ["--ntasks-per-node=2"], "a", "x=1", **stub)
    assert job.wait().state == "FAILED" and job.status == 3
    assert words_in((lab.folder / f"asdf-side-{job.id}-run1.out").read_text()) == [
        ["computing.gpu_ids=None", "a"]
    ]
    assert mixed.wait().status == 2 and "write -- between" in mixed.output
    single = lab.submit("roihu_one_node.sh", ["--partition=gpu"], "fail", **stub)
    assert single.wait().state == "FAILED" and single.status == 1  # torchrun's own


@pytest.mark.slow
def test_a_job_that_cannot_be_requeued_is_submitted_anew_up_to_the_cap(lab, stub):
    options = ["--no-requeue", "--array=1", "--time=7", "--job-name=again"]
    first = lab.submit(
        "puhti_array.sh", options, "a", "wait", "--", "x='y z'", ASDF_MAX_RESTARTS="1", **stub
    )
    task = Job(f"{first.id}_1")
    task.wait_until(lambda: words_in(task.output))
    task.stop()
    assert task.wait().state == "COMPLETED" and "restart 1 of at most 1" in task.output
    again = Job(re.search(r"Submitted batch job (\d+)", task.output)[1] + "_1")
    again.wait_until(lambda: words_in(again.output))
    assert words_in(again.output) == [["wait", "x='y z'"]]
    for name in ("TimeLimit", "JobName", "TresPerNode", "MinMemoryNode", "NumCPUs"):
        assert again.show(name) == task.show(name), name
    again.stop()
    assert again.wait().status == 1 and "ASDF_MAX_RESTARTS=1 is reached" in again.output
    assert not list(lab.folder.glob(".asdf-stop*"))


@pytest.mark.slow
def test_one_task_of_an_array_is_requeued_without_the_others(lab, stub):
    array = lab.submit("puhti_array.sh", ["--array=0-1"], "wait", "wait", **stub)
    first, last = (Job(f"{array.id}_{number}") for number in (0, 1))
    for task in (first, last):
        task.wait_until(lambda task=task: words_in(task.output))
    assert last.show("JobId") == array.id  # a bare id would mean both
    last.stop()
    last.wait_until(lambda: last.state == "PENDING")
    assert (last.show("Restarts"), first.show("Restarts"), first.state) == ("1", "0", "RUNNING")
    array.cancel()


@pytest.mark.slow
def test_two_nodes_stopped_by_the_time_limit_end_as_never_stopped(lab, recipe, corpus):
    """Two processes per node on two nodes, the corpus in an archive; the held run is requeued."""
    (recipe.folder / "held.py").write_text(HELD)
    recipe.add_configs(
        "held < normed\nnetwork.network_class = 'held.Held'\npaths.database_folder = '/nowhere'\n"
    )
    archive = lab.folder / "the corpus.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(corpus, ".")
    variables = {
        "ASDF_RECIPE": str(recipe.folder / "run.py"),
        "ASDF_ARCHIVES": str(archive),
        "ASDF_PROCESSES_PER_NODE": "2",
    }
    words = ("held", "network.minibatch_size=2")
    limit = ["--cpus-per-task=2", "--time=20", "--signal=B:USR2@100"]
    held = lab.folder / "held"
    stopped = lab.submit(
        "puhti_two_nodes.sh",
        limit,
        *words,
        "paths.system_folder=stopped",
        TEST_HOLD=str(held),
        **variables,
    )
    whole = lab.submit(
        "puhti_two_nodes.sh", limit[:1], *words, "paths.system_folder=whole", **variables
    )
    # However long its start takes, it is held when the signal comes.
    stopped.wait_until(held.exists)
    stopped.leave_two_minutes()
    assert whole.wait().state == "COMPLETED", whole.output
    assert "rank 3 of 4: host n2, local rank 1" in whole.output
    assert "rank 1 of 4: host n1" in whole.output
    assert stopped.wait(restarts=1).state == "COMPLETED", stopped.output
    assert "asked to stop" in stopped.output and "going on from resume.pt" in stopped.output
    ends = [
        torch.load(recipe.system(name) / "networks" / "epoch.3.pt", weights_only=True)[
            "model_state_dict"
        ]
        for name in ("stopped", "whole")
    ]
    assert ends[0].keys() == ends[1].keys()
    for name in ends[0]:
        torch.testing.assert_close(ends[0][name], ends[1][name], rtol=0, atol=0)
    used = (recipe.system("stopped") / "settings.py").read_text()
    assert f"/job_{stopped.id}/data/asdf-{stopped.id}'" in used
