"""What tests share: a small corpus, a recipe folder of their own, and ways to run it for real."""

import gc
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

import hypothesis
import pytest

# As many tests run at once as there are cores. With more than a thread each they, and the processes
# that they start, would wait for each other. Read by torch when it is imported, hence up here.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled once, whatever the shell says: hundreds of processes import the package, and what pytest
# makes of a test file takes longer than all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from asdf.demo import DemoSet, make_demo_corpus
from asdf.evaluation import read_scores
from asdf.recipe.command_line import config_files, config_folders
from asdf.runs.log import LOG, is_on_screen
from tests.warm_python import warm_python

sys.dont_write_bytecode = False

# A shell lets what it starts in the background ignore Ctrl-C, and so would all processes of the
# tests, some of which are about it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure of what is tested.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

LOG_LEVEL = LOG.level


def pytest_configure(config: pytest.Config) -> None:
    """Hide GPUs from this process and what it starts: ordinary tests compare bits of the CPU."""
    # What is imported before the first test stays; to look for garbage in it takes a fifth longer.
    gc.disable()
    if "real_gpu" not in config.option.markexpr:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection(session: pytest.Session) -> None:
    """Compile a share of all test files: each process reads afterwards what the others compiled."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1 or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[number::processes]:
        # A file that skips itself, or is broken, does so again when its tests are collected.
        with suppress(pytest.skip.Exception, Exception):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all cases of a test but those that its `slow_but` names: one is quick enough.

    Raises:
        pytest.UsageError: a test has several cases, and a named one is none of them.
    """
    cases: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        test, _, case = item.nodeid.partition("[")
        if item.get_closest_marker("slow_but") is not None:
            cases.setdefault(test, {})[case.removesuffix("]")] = item
    for test, by_name in cases.items():
        marker = next(iter(by_name.values())).get_closest_marker("slow_but")
        assert marker is not None
        unknown = set(marker.args) - by_name.keys()
        # A single case was likely asked for by its name.
        if unknown and len(by_name) > 1:
            raise pytest.UsageError(f"{test}: slow_but names {sorted(unknown)}, which is no case.")
        for name, item in by_name.items():
            if name not in marker.args:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Set aside what is there: each run collects garbage, and would go through all imports."""
    gc.enable()
    gc.collect()
    gc.freeze()
    # By Python's own thresholds, of 700 objects, a tenth of the time is spent on looking for it.
    gc.set_threshold(10_000, 10, 10)


ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "recipes" / "wav2vec_aasist"
CONFIG_FILES = config_files(RECIPE, config_folders(RECIPE / "run.py"))
SHARED = ROOT.parent / "shared"

# How long a test waits for a process, a file or a page before it says that it hangs. On a machine
# that is busy with others each of them may take minutes; a test that passes never waits it out.
PATIENCE_S = 240

DEBUG_CONFIG = """
debug
recipe.training_sets = ('demo-train',)
recipe.validation_sets = ('demo-dev',)
recipe.evaluation_sets = ('demo-dev', 'demo-eval')
network.network_class = 'small_networks.Plain'
network.optimizer = 'adam'
network.initial_learning_rate = 0.003
network.schedule = 'constant'
network.minibatch_size = 4
network.train_clip_size = 4000
network.min_evaluation_utterance_length_in_samples = 4000
network.max_epochs = 3
network.print_interval = 2
network.checkpoint_interval_s = None
computing.network_dataloader_workers = 0
computing.threads = 1

normed < debug
network.network_class = 'small_networks.Normed'
paths.system_folder = 'normed'
"""


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference cases next to the checkout; tests that need it skip elsewhere."""
    if not SHARED.is_dir():
        pytest.skip("no folder 'shared' next to the checkout")
    return SHARED


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A demo corpus of 26 training, 8 development and 8 evaluation utterances, made once."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / f"corpus-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    attacks = ("A01", "A02", "A03")
    sets = (
        DemoSet("train", "train.trn", attacks, speakers=1, pairs=13),
        DemoSet("dev", "dev.trl", attacks, speakers=1, pairs=4),
        DemoSet("eval", "eval.trl", (*attacks, "A04"), speakers=1, pairs=4),
    )
    make_demo_corpus(folder, sets=sets)
    return folder


@pytest.fixture(scope="session")
def bfloat16() -> None:
    """Skip where scores are never computed in bf16; tests/unit/scoring/test_other_cpus.py runs."""
    # It imports torch, which the process that hands out the tests does not need.
    from asdf.distributed.arithmetic import computes_bfloat16

    if not computes_bfloat16():
        pytest.skip("torch has no bf16 for all operations on this CPU")


@contextmanager
def starting_when_used(folder: Path, **variables: str) -> Iterator[Callable[[], str]]:
    """Yield a function that returns the path of a warm Python, which its first call starts."""
    with ExitStack() as stack:

        @cache
        def start() -> str:
            return str(stack.enter_context(warm_python(folder, variables)))

        yield start


@pytest.fixture(scope="session")
def warm(tmp_path_factory) -> Iterator[Callable[[], str]]:
    """Return the path of a Python that has imported torch; it is started at the first call.

    Each program of it is a process of its own that starts in a tenth of a second of computing,
    where importing torch and what training needs of it takes five.
    """
    with starting_when_used(tmp_path_factory.mktemp("python")) as start:
        yield start


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_disks() -> None:
    """Leave out what only a loss of power would show: each file that is written waits for it."""
    os.fsync = lambda file: None


@pytest.fixture(autouse=True)
def leave_process_as_it_was():
    """Forget what commands and recipes that ran in this process left in it."""
    yield
    # Each test's recipe folder has its own copy, and Python imports a module of a name once.
    sys.modules.pop("small_networks", None)
    # A log that is on the screen reaches pytest twice.
    if is_on_screen():
        LOG.handlers.clear()
    LOG.propagate = True
    # All loggers, of which libraries make thousands, forget what they know when a level is set.
    if LOG.level != LOG_LEVEL:
        LOG.setLevel(LOG_LEVEL)


@dataclass
class Outcome:
    """How a command ended."""

    status: int
    output: str

    def ok(self) -> "Outcome":
        """Return it after checking that the command succeeded."""
        assert self.status == 0, self.output
        return self

    def refused(self, *said: str, status: int | None = 2) -> "Outcome":
        """Return it after checking that it ended with one message, which says this.

        Args:
            status: None for any but 0.
        """
        assert self.status and status in (None, self.status), self.output
        assert self.output.count("error:") == 1 and "Traceback" not in self.output, self.output
        for words in said:
            assert words in self.output, self.output
        return self


@dataclass
class RecipeFolder:
    """A copy of the recipe with the tests' configs and networks; `run` runs it as a user would.

    Attributes:
        python: returns the path of the Python that runs it.
    """

    folder: Path
    python: Callable[[], str]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def system(self, name: str = "system1") -> Path:
        return self.output / name

    def add_configs(self, text: str) -> None:
        path = self.folder / "configs" / "run_configs.py"
        path.write_text(path.read_text() + "\n\n" + text)

    def with_files(self, configs: str = "", **modules: str) -> "RecipeFolder":
        """Return it with further configs, and with modules of these texts next to run.py."""
        self.add_configs(configs)
        for name, text in modules.items():
            (self.folder / f"{name}.py").write_text(text)
        return self

    def scores(self, name: str = "demo-dev", network: str = "epoch.1", system: str = "system1"):
        return read_scores(self.system(system) / "scores" / network / f"{name}.txt")

    def load(self, network: str = "epoch.1", system: str = "system1") -> dict:
        """Return what a network file of a run holds."""
        # The process that hands out the tests does not need it.
        import torch

        path = self.system(system) / "networks" / f"{network}.pt"
        return torch.load(path, weights_only=True)

    def results(self, name: str = "results", system: str = "system1") -> list[dict]:
        return json.loads((self.system(system) / "results" / f"{name}.json").read_text())

    def evaluations(self, system: str = "system1") -> list[dict]:
        path = self.system(system) / "networks" / "evaluations.json"
        return json.loads(path.read_text())

    def command(self, *words: str, processes: int = 1) -> list[str]:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        launched = launcher if processes > 1 else []
        return [self.python(), *launched, str(self.folder / "run.py"), *words]

    def start(self, *words: str, processes: int = 1, **variables: str) -> subprocess.Popen:
        """The command as a process group of its own, so that a test can kill all of it."""
        return self.start_command(self.command(*words, processes=processes), **variables)

    def start_command(self, command: list[str], **variables: str) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment, **variables},
            start_new_session=True,
        )

    def run(self, *words: str, processes: int = 1, **variables: str) -> Outcome:
        """In separate processes."""
        return self.run_command(self.command(*words, processes=processes), **variables)

    def run_command(self, command: list[str], **variables: str) -> Outcome:
        process = self.start_command(command, **variables)
        output, _ = process.communicate(timeout=PATIENCE_S)
        return Outcome(process.returncode, output)

    def call(self, capsys, *words: str) -> Outcome:
        """In this process, which has torch already: much quicker than `run`."""
        capsys.readouterr()
        status = self.run_here(*words)
        captured = capsys.readouterr()
        return Outcome(status, captured.out + captured.err)

    def run_here(self, *words: str) -> int:
        """Return the exit status of a run in this process."""
        before, sys.argv = sys.argv, [str(self.folder / "run.py"), *words]
        for path in self.folder.glob("*.py"):
            sys.modules.pop(path.stem, None)  # another test's module of that name
        modules = set(sys.modules)
        handlers = LOG.handlers[:]
        propagates = LOG.propagate
        level = LOG.level
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
            return 0
        except SystemExit as end:
            return int(end.code or 0)
        finally:
            sys.argv = before
            # A run shows its log on the screen; what pytest captures of later tests comes by root.
            LOG.handlers[:] = handlers
            LOG.propagate = propagates
            LOG.setLevel(level)
            # The user's own modules: the next recipe folder has others of the same names.
            for name in set(sys.modules) - modules:
                if Path(getattr(sys.modules[name], "__file__", None) or "").parent == self.folder:
                    del sys.modules[name]


def make_recipe(folder: Path, corpus: Path, python: Callable[[], str]) -> RecipeFolder:
    """Make a recipe folder with a config `debug` that trains in a second."""
    (folder / "configs").mkdir(parents=True)
    source = (RECIPE / "run.py").read_text()
    # The tests' corpus is smaller than the one that the recipe would make in its place.
    (folder / "run.py").write_text(source.replace(", make=make_demo_corpus", ""))
    shutil.copy(Path(__file__).parent / "small_networks.py", folder)
    init = f"paths.output_folder = 'output'\npaths.database_folder = '{corpus}'\n"
    (folder / "configs" / "init_config.py").write_text(init)
    (folder / "configs" / "run_configs.py").write_text(DEBUG_CONFIG)
    return RecipeFolder(folder, python)


@pytest.fixture
def recipe(tmp_path, corpus, warm) -> RecipeFolder:
    """A recipe folder in an empty folder."""
    return make_recipe(tmp_path / "recipe", corpus, warm)
