"""From a command line to runs: all configs are checked first, then run one after another.

The parts: `command_line.py` reads the arguments, `problems.py` finds problems before any start,
and `ending.py` turns the final exception into a message and an exit status.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from asdf.distributed.determinism import workspace
from asdf.distributed.devices import TORCH_PAIR, installed_torch
from asdf.distributed.launchers import become_torchrun, read_launch
from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError, UsageError
from asdf.recipe.command_line import answer_with, config_files, parse_command_line
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.ending import cause_of, exit_status, skip_shutdown
from asdf.recipe.problems import Problem, failures, find_problems, raise_problems, read_stages
from asdf.recipe.run import Run
from asdf.recipe.run_folders import Folders, folders_of
from asdf.recipe.used_sets import trains
from asdf.runs.layout import owner_lock, remove_leftovers
from asdf.runs.log import LOG, log_to_file, log_to_screen
from asdf.runs.streams import open_streams
from asdf.settings import Configs, Sections, Settings, list_configs
from asdf.settings.explaining import explain
from asdf.text import as_typed, printable

if TYPE_CHECKING:
    from asdf.distributed.world import World


_LATER = ("asdf.evaluation", "asdf.interchange.pretrained", "asdf.recipe.training_stage")


def check_same_run(world: World, configs: Sequence[str], settings: Sections) -> None:
    """Refuse processes that were started together, but for different runs.

    They would train on each other's gradients, or wait for each other forever. Folders and devices
    may differ between nodes.

    Args:
        configs: All configs on the command line.
        settings: Settings of the config that runs now.

    Raises:
        UsageError: on every rank, if any rank differs from the main rank.
    """
    compared = settings.plain()
    # Nodes may have other disks and devices.
    del compared["paths"], compared["computing"]
    differs = (configs, compared) != world.agree((configs, compared))
    words = " ".join(configs)
    # All ranks take part in each exchange: a rank that continued would leave the others waiting.
    words_of_others = world.gather(words if differs else "") or []
    if not world.sum([float(differs)])[0]:
        return
    named = [f"rank {rank} runs {name}" for rank, name in enumerate(words_of_others) if name]
    error = UsageError(
        f"the {world.size} processes that were started together do not run the same config with "
        f"the same settings: rank 0 runs {words}, {', '.join(named)}. For separate runs start each "
        "by itself (with srun: --ntasks=1 --exact), or use python -m asdf launch."
    )
    raise world.common_error(error)


def import_torch() -> None:
    """Load all code that a run may need: if loaded later, it might have been edited."""
    try:
        import torch  # noqa: F401
        import torchaudio  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        raise AsdfError(
            f"torch and torchaudio cannot be loaded together: {str(error).splitlines()[0]}. "
            f"Install a matching pair: pip install {TORCH_PAIR} (or torch 2.9 or 2.10 with the "
            "torchaudio of the same number); a CPU-only torch needs the CPU-only torchaudio from "
            "the same index."
        ) from None
    for module in _LATER:
        import_module(module)


def describe_next_steps(run: Run, next_config: str) -> list[str]:
    """Return lines for the end of a demo run, on corpora that a recipe makes; else [].

    Args:
        next_config: Config to try next; '' for none.
    """
    report = run.folders.layout.report
    sets = run.sets_in_use()
    parts = [part for name in sets for part in set_parts(name, run.lists.corpora)]
    is_demo = all(find_corpus(part, run.lists.corpora).make is not None for part in parts)
    reports = run.settings.recipe.execute_stage(3) and report.is_file()
    if not (sets and is_demo and reports):
        return []
    run_file = _shown(run.folders.recipe / "run.py")
    steps = [(f"open {_shown(report)}", "the results as a page")]
    names = run.selected_networks()
    if names:
        network = _shown(run.folders.networks / names[-1])
        command = as_typed(f"python -m asdf score {network} your_recording.wav")
        purpose = "a demonstration: trained on the demo corpus, its scores say nothing about real "
        steps.append((command, f"{purpose}recordings"))
    if next_config:
        command = f"python {run_file} {next_config} --dry-run"
        steps.append((command, "what a real training needs and does"))
    steps.append((f"python {run_file} --list", "the other configs"))
    return ["what next:", *(f"  {command}    # {purpose}" for command, purpose in steps)]


def _shown(path: Path) -> str:
    """Return a path for use in a command, relative to the working folder if it is below it."""
    here = Path.cwd()
    if path.is_relative_to(here):
        path = path.relative_to(here)
    return shlex.quote(os.fspath(path))


@dataclass(frozen=True)
class Recipe:
    """A recipe, with the configs on its command line.

    Attributes:
        folder: Folder of run.py.
        configs: Configs in their order, read once and free of errors.
        next_config: Config to try after a demo.
    """

    folder: Path
    corpora: Mapping[str, Corpus]
    configs: Configs
    next_config: str
    _ending: ExitStack

    def runs(self) -> Iterator[Run]:
        """Yield a run per config; the settings are reset to init_config.py after each."""
        runs = self._runs()
        # After an exception, a generator cleans up only when it is collected, which is too late for
        # the other processes.
        self._ending.push(partial(_end_runs, runs))
        return runs

    def _runs(self) -> Generator[Run, None, None]:
        from asdf.distributed.world import open_world
        from asdf.recipe.starts import end_recorded, start_run

        names = [config.name for config in self.configs]
        stop = StopRequest()
        turns = Settings().apply_each(self.configs)
        self._ending.callback(turns.close)
        for name, account in zip(names, turns, strict=True):
            settings = Settings().snapshot()
            folders = folders_of(settings.paths, self.folder)
            with ExitStack() as stack:
                world = stack.enter_context(open_world(settings.computing))
                log_to_screen(world.is_main)
                check_same_run(world, names, settings)
                stack.enter_context(world.listening(stop))
                run = Run(name, settings, folders, self.corpora, world, stop)

                def claim_folder(folders: Folders = folders, stack: ExitStack = stack) -> None:
                    # Claim it first: files removed and logged below belong to its owner.
                    stack.enter_context(owner_lock(folders.system))
                    remove_leftovers(folders.layout, folders.sad)
                    stack.enter_context(log_to_file(folders.layout.log))

                with run.lists.sharing():
                    # One process owns the folder; if this fails, all processes end.
                    world.run_on_main(claim_folder)
                    start_run(run, account)
                    with end_recorded(folders.layout, world):
                        try:
                            yield run
                        except BaseException as error:
                            run.end_callbacks(cause_of(error))
                            raise
                        run.end_callbacks(None)
                if world.is_main:
                    for line in describe_next_steps(run, self.next_config):
                        LOG.info("%s", line)


def _end_runs(
    runs: Generator[Run, None, None],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Close the open run, if any, by raising the `error` that ends it inside of it."""
    if error is None:
        runs.close()
        return
    try:
        runs.throw(error)
    except BaseException as raised:
        if raised is not error:
            raise


@contextmanager
def open_recipe(
    file: str,
    corpora: Mapping[str, Corpus],
    description: str | None = None,
    next_config: str = "",
    configs: Sequence[str] = (),
) -> Iterator[Recipe]:
    """Read the command line of the recipe whose run.py is `file`, and check it.

    --list, --explain and --dry-run are answered here. A user error ends the program with a message
    and an exit status, without a traceback; a requested stop ends it with status 0.

    Args:
        next_config: Config to suggest after a run whose corpora the recipe made itself.
        configs: Folders of further configs, as literals and relative to the recipe's folder, whose
            `configs/*.py` are read as if they stood in the recipe's run_configs.py.

    Examples:
        >>> import sys
        >>> from asdf.recipe import Corpus, open_recipe
        >>> corpora = {"mine": Corpus("train.txt", folder="mine")}
        >>> sys.argv = ["run.py", "small", "network.max_epochs=2"]  # the words of the command line
        >>> with open_recipe("run.py", corpora) as recipe:  # doctest: +ELLIPSIS
        ...     for run in recipe.runs():
        ...         epochs = run.settings.network.max_epochs
        ...         utterances = len(run.utterances("mine"))
        config small, system folder ...
        >>> epochs, utterances
        (2, 2)
    """
    answer_with(corpora)
    with ExitStack() as ending, exit_status() as statuses:
        open_streams()
        # Before the arguments, so that contradictory variables of a launcher are refused first.
        launch = read_launch()
        command = parse_command_line(sys.argv[1:], description or "")

        folder = Path(file).resolve().parent
        run_configs = config_files(folder, configs)
        settings = Settings(folder / "configs" / "init_config.py", folder)
        # --list needs no config, and works even if the values in some are not valid.
        if command.show_list:
            print(printable(list_configs(run_configs, command.configs)))
            raise SystemExit(0)
        chosen = settings.read_configs(run_configs, command.configs, command.overrides)
        if command.explain is not None:
            for config in chosen:
                print(printable(explain(config, command.explain)))
            raise SystemExit(0)

        stages = read_stages(Path(file))
        problems = find_problems(chosen, folder, corpora, stages)
        if command.dry_run:
            # Imported here: whoever asks for a value does not wait for what a run would need.
            from asdf.recipe.dry_run import dry_run

            problems += dry_run(chosen, folder, corpora, stages, launch)
        # After the plans are printed, so that a dry run shows everything it found.
        raise_problems(problems, command.configs)
        if command.dry_run:
            raise SystemExit(0)

        # Processes exist from here on, and are not started for configs with errors.
        snapshots = [config.sections() for config in chosen]
        # The first config stands for all: differing numbers were refused (`find_problems`).
        processes = snapshots[0].computing.processes
        if processes > 1 and launch.size == 1 and not launch.is_in_torch_world:
            become_torchrun(processes, sys.argv)
        # Before any run computes on a GPU, because the setting applies to all of them.
        deterministic = any(snapshot.computing.deterministic for snapshot in snapshots)
        ending.enter_context(workspace(deterministic))
        # Last, because it takes seconds, or a minute on a busy machine, and nothing above needs it.
        if launch.rank == 0 and "torch" not in sys.modules:
            print(f"loading {installed_torch()}", flush=True)
        import_torch()
        if launch.size > 1:
            skip_shutdown(statuses)
        from asdf.recipe.requirements import class_checks

        # The first config finds its own as it starts; its hours would precede those of others.
        for config, later in zip(chosen[1:], snapshots[1:], strict=True):
            errors = failures(class_checks(later, folder)) if trains(later) else []
            problems += [Problem(config.name, error) for error in errors]
        raise_problems(problems, command.configs)
        yield Recipe(folder, corpora, chosen, next_config, ending)
