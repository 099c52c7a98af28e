"""From a command line to runs: every config is checked first, then one runs after another."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import traceback
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from asdf.distributed.determinism import check_workspace, explain_refusal, workspace
from asdf.distributed.launchers import Launch, check_local_rank, read_launch
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError, UsageError
from asdf.recipe.checks import (
    Problem,
    check_processes,
    failures,
    raise_problems,
    settings_failures,
)
from asdf.recipe.command_line import CommandLine, parse_command_line
from asdf.recipe.corpora import Corpus
from asdf.recipe.dry_run import plan_run
from asdf.recipe.folders import Folders, folders_of
from asdf.recipe.recording import end_recorded, start_run
from asdf.recipe.run import Run
from asdf.recipe.stage_list import Stage, read_stages
from asdf.recipe.starting import become_torchrun, check_same_run, import_torch
from asdf.runs.files import removed_folder_error
from asdf.runs.layout import check_layout, remove_leftovers
from asdf.runs.log import LOG, is_on_screen, log_to_file, log_to_screen
from asdf.runs.owner import owner_mark
from asdf.runs.streams import (
    NobodyReadsError,
    OutputError,
    close_streams,
    discard_output,
    open_streams,
    show_error,
)
from asdf.settings import Sections, Settings, list_configs
from asdf.text import printable

_WAITED_TOO_LONG = (
    "another process kept this one waiting for longer than computing.timeout_s. Was one stopped or killed, or does one "
    "read from a disk that hangs? Look at the messages of the other ranks above and at the memory of the machines. "
    "Give computing.timeout_s more seconds if a step or a stage just takes that long."
)


@dataclass(frozen=True)
class Recipe:
    """A recipe's folder, its corpora, what the command line asks of it, and its stages as run.py writes them."""

    folder: Path
    corpora: Mapping[str, Corpus]
    command: CommandLine
    stages: Mapping[int, Stage] | None
    _ending: ExitStack

    @property
    def run_configs(self) -> Path:
        return self.folder / "configs" / "run_configs.py"

    def runs(self) -> Iterator[Run]:
        """One run for each config that was named; the settings are init_config.py's again after each."""
        runs = self._runs()
        # Left by an exception, a generator would clean up when it is collected: too late for the other processes.
        self._ending.push(partial(_end_runs, runs))
        return runs

    def _runs(self) -> Generator[Run, None, None]:
        from asdf.distributed.world import open_world

        stop = StopRequest()
        turns = Settings().load_settings(
            self.run_configs, self.command.configs, self.command.overrides
        )
        self._ending.callback(turns.close)
        for name, account in zip(self.command.configs, turns, strict=True):
            settings = Settings().snapshot()
            folders = folders_of(settings.paths, self.folder)
            with ExitStack() as stack:
                world = stack.enter_context(open_world(settings.computing))
                log_to_screen(world.is_main)
                check_same_run(world, self.command.configs, settings)
                stack.enter_context(stop.listening())
                run = Run(name, settings, folders, self.corpora, self.folder, world, stop)
                world.run_on_main(partial(_claim, folders, stack))
                start_run(run, account)
                with end_recorded(run):
                    yield run


def _end_runs(
    runs: Generator[Run, None, None],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Leave the run that is open, if one is; it hears of the `error` that ends it."""
    if error is None:
        runs.close()
        return
    try:
        runs.throw(error)
    except BaseException as raised:
        if raised is not error:
            raise


def _claim(folders: Folders, stack: ExitStack) -> None:
    check_layout(folders.layout)
    stack.enter_context(owner_mark(folders.system))
    remove_leftovers(folders.layout, folders.sad)
    stack.enter_context(log_to_file(folders.layout.log))


@contextmanager
def open_recipe(
    file: str, corpora: Mapping[str, Corpus], description: str | None = None
) -> Iterator[Recipe]:
    """Read the command line of the recipe whose run.py is `file`, and check all of it before anything starts.

    --list, --explain and --dry-run are answered here. An error that a user can mend ends the program with its message
    and its exit status, without a traceback; a stop that was asked for, with status 0.
    """
    ended: list[int] = []
    with ExitStack() as ending, _exit_status(ended):
        open_streams()
        folder = Path(file).resolve().parent
        launch = read_launch()
        command = parse_command_line(sys.argv[1:], description or "")
        check_local_rank(launch, command.local_rank)
        recipe = Recipe(folder, corpora, command, read_stages(Path(file)), ending)
        Settings(folder / "configs" / "init_config.py")
        if command.show_list:
            print(printable(list_configs(recipe.run_configs)))
            raise SystemExit(0)
        configs = _configs(recipe)
        if command.explain is not None:
            _explain(recipe, command.explain)
            raise SystemExit(0)
        problems = _problems(recipe, configs, launch)
        if command.dry_run:
            problems += _dry_run(recipe, configs, launch)
        raise_problems(problems, command.configs)
        if command.dry_run:
            raise SystemExit(0)
        become_torchrun([settings for _, settings in configs], launch)
        # Before any run computes on a GPU: what is set then is set for all of them.
        wanted = any(settings.computing.deterministic for _, settings in configs)
        ending.enter_context(workspace(wanted))
        import_torch()
        if launch.size > 1:
            # Registered now, so that whatever registers itself during the runs is still called before it.
            atexit.register(_leave, ended)
        yield recipe


@contextmanager
def _exit_status(ended: list[int]) -> Iterator[None]:
    """Turn what ends the program into a message and an exit status, which is then in `ended`."""
    try:
        try:
            yield
            sys.stdout.flush()
            ended.append(0)
        except Stopped as request:
            LOG.info("%s", request)
            ended.append(0)
            raise SystemExit(0) from None
    except SystemExit as end:
        if close_streams(0) and not end.code:
            raise SystemExit(OutputError.exit_status) from None
        raise
    except (Exception, KeyboardInterrupt) as error:
        ended.append(close_streams(_report(error)))
        raise SystemExit(ended[-1]) from None


def _leave(ended: list[int]) -> None:
    """End a process of several whose runs `ended` with a status, without taking the interpreter apart.

    The group is closed. Threads of torch's communication that are still about then abort the process now and then, and
    the launcher would count a run that is complete, or that stopped as asked, as failed; after a failure the others
    would wait for it. What a recipe's own code raises after its runs still ends as it should.
    """
    if ended and not hasattr(sys, "last_value"):
        # What the interpreter would have ended: after a failure a loader's processes are still about.
        for child in multiprocessing.active_children():
            child.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended[-1])


def _report(error: BaseException) -> int:
    """Say what ended the run, once and where it can be read, and return the exit status."""
    if isinstance(error, FileNotFoundError):
        error = removed_folder_error() or error
    error = explain_refusal(error) or error
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, NobodyReadsError):  # `run.py --list | head`: nobody reads on
        return 0
    rank = _own_rank()
    if not isinstance(error, AsdfError):
        return _report_failure(error, rank)
    if isinstance(error, OutputError):
        discard_output()
        show_error(f"error: {error}")
    else:
        _report_for_user(error, rank)
    if "torch" in sys.modules:
        from asdf.distributed.failures import record_for_launcher

        record_for_launcher(error)
    return error.exit_status


def _report_failure(error: BaseException, rank: int) -> int:
    """Say what no user's mistake explains: another process has failed, or the code."""
    from asdf.distributed.failures import (
        lost_contact,
        record_for_launcher,
        record_message_for_launcher,
        wait_for_launcher,
        waited_too_long,
    )

    if lost_contact(error):
        LOG.error("rank %d: another process of this run has ended; its own message tells why", rank)
        wait_for_launcher()
    elif waited_too_long(error):
        said = f"[rank {rank}] error: {_WAITED_TOO_LONG}"
        LOG.error("%s", said)
        record_message_for_launcher(said)
    else:
        LOG.error("%s", "".join(traceback.format_exception(error)).rstrip())
        record_for_launcher(error)
    return 1


def _own_rank() -> int:
    """The rank of this process; 0 where it cannot be known, so that the reason is said."""
    try:
        return read_launch().rank
    except UsageError:
        return 0


def _report_for_user(error: AsdfError, rank: int) -> None:
    if "torch" in sys.modules and rank and not error.reported_by_main:
        LOG.error("[rank %d] error: %s", rank, error)
    elif not rank and is_on_screen():
        LOG.error("error: %s", error)
    elif not rank:
        show_error(f"error: {error}")


def _configs(recipe: Recipe) -> list[tuple[str, Sections]]:
    """The configs named, with their settings; every mistake in the text of any of them is in one error."""
    command = recipe.command
    Settings().check(recipe.run_configs, command.configs, command.overrides)
    turns = Settings().load_settings(recipe.run_configs, command.configs, command.overrides)
    return [(name, Settings().snapshot()) for name, _ in zip(command.configs, turns, strict=True)]


def _problems(recipe: Recipe, configs: list[tuple[str, Sections]], launch: Launch) -> list[Problem]:
    """What the settings of the configs, and how many processes were started, show to be wrong."""
    problems = []
    for name, settings in configs:
        errors = settings_failures(settings, recipe.folder, recipe.corpora, recipe.stages)
        errors += failures(
            [
                partial(check_workspace, settings.computing.deterministic),
                partial(check_processes, settings, launch.size),
            ]
        )
        problems += [Problem(name, error) for error in errors]
    if len({settings.computing.processes for _, settings in configs}) > 1:
        error = UsageError(
            "configs of one command need the same computing.processes: name them in commands of their own."
        )
        problems += [Problem(name, error) for name, _ in configs]
    return problems


def _explain(recipe: Recipe, what: str) -> None:
    command = recipe.command
    turns = Settings().load_settings(recipe.run_configs, command.configs, command.overrides)
    for _ in turns:
        print(printable(Settings().explain(what or None)))


def _dry_run(recipe: Recipe, configs: list[tuple[str, Sections]], launch: Launch) -> list[Problem]:
    """Show the plan of every config, and return what would keep them from being done."""
    plans, problems = [], []
    for name, settings in configs:
        try:
            folders = folders_of(settings.paths, recipe.folder)
        except UsageError:  # which is a problem of the settings, and known by now
            continue
        plan = plan_run(name, settings, folders, recipe.corpora, recipe.stages, launch)
        plans.append(plan.text)
        problems += [Problem(name, error) for error in plan.errors]
    print(printable("\n\n".join(plans)), flush=True)
    return problems
