"""From a command line to runs: every config is checked first, then one runs after another."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError, UsageError
from asdf.recipe.command_line import CommandLine, parse_command_line
from asdf.recipe.corpora import Corpus, find_corpus, validation_sets
from asdf.recipe.dry_run import dry_run
from asdf.recipe.folders import folders_of
from asdf.recipe.run import Run
from asdf.runs.files import remove_unfinished
from asdf.runs.log import LOG, is_on_screen, log_to_file, log_to_screen
from asdf.runs.owner import owner_mark
from asdf.runs.record import append_record, environment_record
from asdf.settings import Sections, Settings, list_configs

_LATER = (
    "asdf.data.feature_pass",
    "asdf.networks.build",
    "asdf.evaluation",
    "asdf.scoring.scoring",
    "asdf.training.loop",
    "asdf.training.retention",
)


@dataclass(frozen=True)
class Recipe:
    """A recipe's folder, its corpora, and what the command line asks of it."""

    folder: Path
    corpora: Mapping[str, Corpus]
    command: CommandLine
    _ending: ExitStack

    @property
    def run_configs(self) -> Path:
        return self.folder / "configs" / "run_configs.py"

    def runs(self) -> Iterator[Run]:
        """One run for each config that was named; the settings are init_config.py's again after each."""
        runs = self._runs()
        # Left by an exception, a generator would clean up when it is collected: too late for the other processes.
        self._ending.callback(runs.close)
        return runs

    def _runs(self) -> Generator[Run, None, None]:
        from asdf.distributed.world import open_world

        stop = StopRequest()
        turns = Settings().load_settings(self.run_configs, self.command.configs, self.command.overrides)
        self._ending.callback(turns.close)
        for name, account in zip(self.command.configs, turns, strict=True):
            settings = Settings().snapshot()
            folders = folders_of(settings.paths, self.folder)
            with ExitStack() as stack:
                world = stack.enter_context(open_world(settings.computing))
                log_to_screen(world.is_main)
                stack.enter_context(stop.listening())
                run = Run(name, settings, folders, self.corpora, self.folder, world, stop)
                world.run_on_main(partial(_claim, folders.system, stack))
                _start(run, account)
                yield run


def _claim(system: Path, stack: ExitStack) -> None:
    stack.enter_context(owner_mark(system))
    stack.enter_context(log_to_file(system / "log.txt"))


@contextmanager
def open_recipe(file: str, corpora: Mapping[str, Corpus], description: str | None = None) -> Iterator[Recipe]:
    """Read the command line of the recipe whose run.py is `file`, and check all of it before anything starts.

    --list, --explain and --dry-run are answered here. An error that a user can mend ends the program with its message
    and its exit status, without a traceback; a stop that was asked for, with status 0.
    """
    folder = Path(file).resolve().parent
    ended_well: list[str] = []
    with ExitStack() as ending:
        try:
            command = parse_command_line(sys.argv[1:], description or "")
            recipe = Recipe(folder, corpora, command, ending)
            Settings(folder / "configs" / "init_config.py")
            if command.show_list:
                print(list_configs(recipe.run_configs))
                raise SystemExit(0)
            settings = _check(recipe)
            if command.explain is not None or command.dry_run:
                _answer(recipe)
                raise SystemExit(0)
            _start_processes(settings)
            _import_torch()
            if int(os.environ.get("WORLD_SIZE", 1)) > 1:
                # Registered now, so that whatever registers itself during the runs is still called before it.
                atexit.register(_leave, ended_well)
            yield recipe
            ended_well.append("finished")
        except Stopped as request:
            LOG.info("%s", request)
            ended_well.append("stopped")
            raise SystemExit(0) from None
        except (Exception, KeyboardInterrupt) as error:
            raise SystemExit(_tell(error)) from None


def _leave(ended_well: list[str]) -> None:
    """End a process of several whose runs `ended_well`, the group closed, without taking the interpreter apart.

    Threads of torch's communication that are still about then abort the process now and then, and the launcher would
    count a run that is complete, or that stopped as asked, as failed. What a recipe's own code raises after its runs
    still ends as it should.
    """
    if ended_well and not hasattr(sys, "last_value"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _tell(error: BaseException) -> int:
    """Say what ended the run, once and where it can be read, and return the exit status."""
    rank = int(os.environ.get("RANK", 0))
    if isinstance(error, AsdfError):
        if "torch" in sys.modules and rank and not error.told:
            LOG.error("[rank %d] error: %s", rank, error)
        elif not rank:
            LOG.error("error: %s", error) if is_on_screen() else print(f"error: {error}", file=sys.stderr)
        status = error.exit_status
    elif isinstance(error, KeyboardInterrupt):
        return 130
    elif isinstance(error, BrokenPipeError):  # `run.py --list | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    else:
        from asdf.distributed.failures import lost_contact, wait_for_launcher, waited_too_long

        if lost_contact(error):
            LOG.error("rank %d: another process of this run has ended; its own message tells why", rank)
            wait_for_launcher()
            return 1
        if waited_too_long(error):
            LOG.error("rank %d: another process kept this one waiting for longer than computing.timeout_s", rank)
        LOG.error("%s", "".join(traceback.format_exception(error)).rstrip())
        status = 1
    if "torch" in sys.modules:
        from asdf.distributed.failures import record_for_launcher

        record_for_launcher(error)
    return status


def _check(recipe: Recipe) -> list[Sections]:
    """The settings of all configs named; every mistake in any of them is in one error."""
    command = recipe.command
    Settings().check(recipe.run_configs, command.configs, command.overrides)
    mistakes, found = [], []
    for name, _ in zip(
        command.configs,
        Settings().load_settings(recipe.run_configs, command.configs, command.overrides),
        strict=True,
    ):
        settings = Settings().snapshot()
        found.append(settings)
        try:
            folders_of(settings.paths, recipe.folder)
        except UsageError as error:
            mistakes.append(f"config {name}: {error}")
        recipe_sets = (*settings.recipe.training_sets, *validation_sets(settings), *settings.recipe.evaluation_sets)
        for corpus in recipe_sets:
            try:
                find_corpus(corpus, recipe.corpora)
            except UsageError as error:
                mistakes.append(f"config {name}: {error}")
    if len({one.computing.processes for one in found}) > 1:
        mistakes.append("configs of one command need the same computing.processes: name them in commands of their own.")
    if mistakes:
        raise UsageError("\n  ".join(dict.fromkeys(mistakes)))
    return found


def _answer(recipe: Recipe) -> None:
    command = recipe.command
    turns = Settings().load_settings(recipe.run_configs, command.configs, command.overrides)
    for name, _ in zip(command.configs, turns, strict=True):
        if command.explain is not None:
            print(Settings().explain(command.explain or None))
        else:
            settings = Settings().snapshot()
            folders = folders_of(settings.paths, recipe.folder)
            print(dry_run(name, settings, folders, recipe.folder, recipe.corpora))


def _start_processes(settings: list[Sections]) -> None:
    """Become torchrun when several processes are asked for and nobody has started them yet."""
    processes = settings[0].computing.processes
    if processes == 1 or "RANK" in os.environ:
        return
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])


def _import_torch() -> None:
    """Load all the code that a run may need now: edited or updated meanwhile, it would not fit what is loaded."""
    try:
        import torch  # noqa: F401
        import torchaudio  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        raise AsdfError(
            f"torch and torchaudio do not load together: {str(error).splitlines()[0]}. Install a pair that does: "
            "pip install 'torch>=2.11,<2.15' 'torchaudio==2.11.*' (or torch 2.9 or 2.10 with the torchaudio of the "
            "same number); a CPU-only torch needs the CPU-only torchaudio from the same place."
        ) from None
    for module in _LATER:
        import_module(module)


def _start(run: Run, account: str) -> None:
    """Say and record what runs where, and find what is missing before any work."""
    world = run.world
    minibatch = run.settings.network.minibatch_size
    part = f"{minibatch} of the {minibatch * world.size} utterances of a minibatch"
    described = world.gather(f"{world.describe()}, {part}")
    LOG.info("config %s, system folder %s", run.config, run.folders.system)
    for line in described or []:
        LOG.info("%s", line)

    def record() -> None:
        run.folders.networks.mkdir(parents=True, exist_ok=True)
        remove_unfinished(run.folders.networks)
        Settings().save(run.folders.system / "settings.py")
        append_record(run.folders.system / "environment.json", environment_record(described or []))

    world.run_on_main(record)
    LOG.debug("%s", account)
    run.check()
