"""Every command and every block of Python of the documents runs, in a folder made for it."""

import ast
import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import module_name
from tests.conftest import CONFIG_FILES, ROOT
from tests.documents.blocks import SHELL, Block, blocks_of, commands_of
from tests.documents.workspace import Workspace, make_workspace

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")),
    *sorted((ROOT / "recipes").rglob("README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

# Their commands train or start processes; the others' take seconds together.
PAGES_OF_MINUTES = (
    "README.md",
    "CONTRIBUTING.md",
    *(
        f"docs/{name}.md"
        for name in (
            *("augmentation", "cluster", "detector", "evaluation", "fusion", "judging", "launch"),
            *("localisation", "own_corpus", "reproduce", "robustness", "source_tracing"),
            *("start", "student", "training"),
        )
    ),
)

# What is run by other tests, or cannot run here, by its beginning; and why.
ELSEWHERE = {
    "python -m asdf score network.pt eval_list.txt": "tests/unit/commands/test_score_journal.py",
    **dict.fromkeys(
        (
            "python recipes/wav2vec_aasist/run.py --list papers",
            "python recipes/wav2vec_aasist/run.py --list paper-sls",
            "python recipes/wav2vec_aasist/run.py --list demo",
            "python recipes/wav2vec_aasist/run.py paper-sls --dry-run",
        ),
        "the recipe here has other configs; tests/recipes/test_config_folders.py",
    ),
    "python -m venv": "CI runs the README's own lines",
    "pip install": "what it installs is installed",
    "pre-commit": "CI runs the same checks",
    "pytest": "this is it",
    "python -m pytest": "this is it",
    "python -m benchmarks": "tests/unit/benchmarks runs them in their quick size",
    "python -m asdf import AASIST-L.pth": "tests/unit/interchange reads its layout",
    "python -m asdf score aasist-l.pt": "a corpus that is not here; the same commands run above",
    "python -m asdf calibrate aasist-l.pt": "the same",
    "asdf-antispoofing": "tests/packaging, tests/test_your_own.py",
    "python paper/run.py": "tests/packaging/test_student.py",
    "python -m asdf case net.pt call.wav": "tests/extras/forensic/case",
    "sbatch": "tests/scripts runs them under Slurm",
    "scancel": "tests/scripts",
    "export SBATCH_ACCOUNT": "tests/scripts",
    "ASDF_ARCHIVES=": "tests/scripts",
    "module load": "a cluster's own",
    "module use": "a cluster's own",
    "cp puhti_slurm_scripts": "tests/scripts writes the scripts of a site",
    "python -m asdf launch recipes/wav2vec_aasist/run.py mini-wav2vec": "the corpus here has one "
    "speaker; tests/recipes/test_folds.py",
    "python -m asdf launch recipes/wav2vec_aasist/run.py mini-best": "the same",
    "python -m asdf launch --slurm": "tests/scripts runs it under Slurm",
    "/projappl": "a cluster's own",
    "export ASDF_VENV": "a cluster's own",
    "tar -cf /scratch": "a cluster's own",
    "torchrun --nnodes=2": "tests/distributed/test_launchers.py has two nodes on one machine",
    "python -m asdf import LA_model.pth": "1.2 GB; tests/extras/zoo/test_import_network.py",
    "torchrun --nproc_per_node=3": "three of four GPUs; tests/gpu has two",
    "python -m asdf score hub:": "no network; tests/unit/hub has a local hub",
    "python -m asdf export net.pt --push": "no network; tests/unit/hub has a local hub",
    "python -m asdf serve": "tests/extras/service has the page's own test",
    "python -m asdf export net.pt --format transformers": "tests/unit/interchange",
    "python -m asdf corpora decro": "no network; tests/unit/corpora/test_downloading.py",
    "python run.py train-ssl-aasist \"recipe.evaluation_sets=('hub:": "no network; "
    "tests/extras/stores/test_hub_sets.py",
    "python -m asdf import classifier/": "no transformers' folder here; "
    "tests/extras/zoo/test_classifiers.py",
    "python -m asdf score folder/": "no transformers' folder here; tests/unit/interchange",
    "python -m asdf import hub:": "no network; tests/unit/hub has a local hub",
    "python -m asdf score network.pt calls --label": "sets of one class are not here",
    "python -m asdf evaluate calls.txt --threshold-from": "sets of one class are not here; "
    "tests/unit/commands/test_one_class.py",
    "python -m asdf evaluate mlaad.txt": "the same",
    "python -m asdf evaluate calls.txt podcasts.txt": "the same",
    "python -m asdf evaluate dev.txt --protocol dev_list.tsv --by": "the list here has no such "
    "columns; tests/unit/commands/test_evaluate.py",
    "python -m asdf import swa.pth": "1.2 GB; tests/extras/zoo/test_name_maps.py",
    "curl": "tests/extras/service",
    "python -m asdf audit train_list.tsv": "lists that docs/corpus_case.py makes",
    "python -m asdf audit train_list.txt dev_list.txt --rebalance": "the lists here are too short; "
    "tests/extras/audit/test_rebalancing.py",
    "python -m asdf calibrate network.pt dev.txt --protocol P --where": "the list here has no such "
    "columns; tests/extras/forensic/calibrating",
    "python -m asdf calibrate network.pt dev.txt --output calibrated.pt --windows": "hours of "
    "genuine speech; tests/extras/forensic/calibrating",
    "python -m asdf why net.pt call.mp3 -o call": "minutes; tests/extras/forensic/why",
    "docker run": "no containers in a test",
    "python -m asdf import mms_300m": "1.3 GB; tests/extras/zoo/test_antideepfake.py",
    "python -m asdf robustness network.pt": "minutes; tests/extras/robustness/test_command.py",
    "bsdtar": "libarchive's; tests/extras/stores reads what it writes",
}
# Pages whose blocks of Python have tests of their own.
PYTHON_ELSEWHERE = {
    "docs/your_own.md": "tests/test_your_own.py",
    "docs/start.md": "tests/test_your_own.py",
    "docs/training.md": "tests/recipes/test_lengths.py and test_rates.py",
    "docs/corpora.md": "tests/test_docs.py",
    "docs/launch.md": "tests/recipes/test_search_example.py",
    "docs/service.md": "tests/extras/service",
}
# Commands that report something missing here, with their exit status.
STATUSES = {
    "python -m asdf corpora asvspoof": 1,
    "python run.py train-ssl-aasist \"recipe.evaluation_sets=('asvspoof19-dev'": 1,
    "python run.py train-ssl-aasist \"recipe.evaluation_sets=('arena:InTheWild'": 1,
}
# What a reader writes instead of a word.
IN_PLACE = {
    "FOLDER": "{data}",
    "epoch.15.pt": "epoch.1.pt",
    "=('asvspoof21-la:eval',)": "=('demo-eval',)",
    "=('in-the-wild', 'for:testing', 'mlaad+m-ailabs')": "=('demo-dev+demo-eval', 'demo-eval')",
    # The folder has one already, for the Python of the page.
    "--format onnx net.onnx": "--format onnx again.onnx",
    " P ": " protocol.txt ",
    "=/data/mini": "={data}",
    " DATA ": " {data}/mine/train ",
    " /data ": " {data} ",
    "=/data ": "={data} ",
    "=DATA ": "={data} ",
}


@pytest.fixture(scope="module")
def python(warm) -> Path:
    return Path(warm())


@pytest.fixture(scope="module")
def made(tmp_path_factory, corpus, python) -> Path:
    """A workspace that every page gets a copy of."""
    folder = tmp_path_factory.mktemp("workspace")
    make_workspace(folder, corpus, python)
    return folder


@pytest.fixture
def workspace(made, tmp_path, python) -> Workspace:
    folder = tmp_path / "project"
    shutil.copytree(made, folder, symlinks=True)
    link = folder / "output"
    link.unlink()
    link.symlink_to(folder / "recipes" / "wav2vec_aasist" / "output")
    return Workspace(folder, python)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shell_commands(page: Path) -> list[tuple[int, str]]:
    """Return the commands of a page with their lines, without the output shown below them."""
    commands = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.kind != "shell" or block.text.startswith("#!"):
            continue
        for command in commands_of(block):
            if SHELL.match(command):
                commands.append((block.line, command))
    return commands


def is_elsewhere(command: str) -> bool:
    return command.startswith(tuple(ELSEWHERE))


def slow_or_not(page: Path) -> object:
    marks = [pytest.mark.slow] if name_of(page) in PAGES_OF_MINUTES else []
    return pytest.param(page, id=name_of(page), marks=marks)


@pytest.mark.parametrize("page", [slow_or_not(p) for p in PAGES if shell_commands(p)])
def test_commands_run(page: Path, workspace: Workspace, made: Path) -> None:
    failed = []
    for line, shown in shell_commands(page):
        if is_elsewhere(shown):
            continue
        command = f"{shown} "
        for word, value in IN_PLACE.items():
            command = command.replace(word, value.format(data=made / "data"))
        command = command.strip()
        if command.startswith("cd "):
            workspace.current = workspace.folder / command[3:]
            continue
        if not_here := missing_program(command):
            failed += [] if not_here in ("ffmpeg", "zcat") else [(line, shown, "no program")]
            continue
        # A recipe's own page, or help, is read in its folder.
        is_recipes = re.search(r"(python|[\w=-]+) run\.py", command)
        folder = workspace.folder / "recipes" / "wav2vec_aasist" if is_recipes else None
        ended = workspace.run(command, folder)
        status = next((s for c, s in STATUSES.items() if shown.startswith(c)), 0)
        if ended.status not in (0, status):
            failed.append((line, shown, ended.output[-1500:]))
    assert failed == [], "\n".join(f"{line}: {shown}\n{output}" for line, shown, output in failed)


@pytest.mark.parametrize("page", [p for p in PAGES if shell_commands(p)], ids=name_of)
def test_options_of_commands_are_known(page: Path) -> None:
    """Also of the pages whose commands run for minutes: each line is one that its parser takes."""
    refused = []
    for line, shown in shell_commands(page):
        for part in re.split(r" [|&>]+ ?", shown):
            words = shlex.split(part, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            if words[:3] != ["python", "-m", "asdf"] or len(words) < 4 or words[3].startswith("-"):
                continue
            module = import_module(module_name(words[3]))
            try:
                module.COMMAND.parser().parse_intermixed_args(words[4:])
            except SystemExit as ended:
                if ended.code:
                    refused.append((line, part))
            except TypeError:
                # All words of another program follow.
                module.COMMAND.parser().parse_args(words[4:])
    assert refused == []


def missing_program(command: str) -> str | None:
    """Return a program of a pipe that this machine does not have."""
    for part in re.split(r"[|&] ", command):
        words = [word for word in part.split() if not re.match(r"\w+=", word)]
        program = words[0] if words else "true"
        if program not in ("export", "python", "torchrun") and shutil.which(program) is None:
            return program
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_runs_are_of_configs_that_exist(page: Path) -> None:
    """What runs above are the tests' own configs of the same names."""
    blocks = "\n".join(path.read_text(encoding="utf-8") for path in CONFIG_FILES)
    shown = page.read_text(encoding="utf-8")
    names = {"CONFIG", "papers", "demo"}
    names.update(re.findall(r"^([a-z][\w-]*)(?: <.*)?$", blocks, re.MULTILINE))
    names.update(re.findall(r"^([a-z][\w-]*) < [\w-]+$", shown, re.MULTILINE))
    for _, command in shell_commands(page):
        for run in re.findall(r"run\.py ((?:(?! & ).)+)", command):
            words = re.sub(r"--explain \S+", "", run.replace(" &", "").split(" -- ")[0])
            for config in re.findall(r"(?<![\S])([A-Za-z][\w-]*)(?![\S=])", words):
                assert config in names


def python_blocks(page: Path) -> list[Block]:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    return [block for block in blocks if block.kind == "python"]


WITH_PYTHON = [p for p in PAGES if python_blocks(p) and name_of(p) not in PYTHON_ELSEWHERE]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_runs(page: Path, workspace: Workspace, capsys, monkeypatch) -> None:
    monkeypatch.chdir(workspace.folder)
    names = {
        "paths": ["call.mp3", "more.wav"],
        "samples": np.random.default_rng(0).normal(0, 0.1, 32000).astype(np.float32),
    }
    for block in python_blocks(page):
        # As if it stood at its line of the page, so that a traceback shows it.
        tree = ast.parse(block.text)
        ast.increment_lineno(tree, block.line)
        exec(compile(tree, str(page), "exec"), names)
