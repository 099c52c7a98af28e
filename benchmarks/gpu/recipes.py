"""Runs of the recipe as a user would start them, with outputs in a folder of the checks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from asdf.launcher import read_results
from benchmarks.gpu.groups import Setup
from benchmarks.harness import ROOT, error_line

RECIPE = ROOT / "recipes" / "wav2vec_aasist" / "run.py"
_CORPUS = "demo_corpus"


@dataclass(frozen=True)
class Ended:
    """The outcome of a run."""

    status: int
    output: str


class QuickstartRuns:
    """Runs of the quickstart in one output folder, each with its own system folder."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.output, self._setup = setup.new_folder(name), setup

    def start(
        self,
        system: str,
        settings: dict[str, Any],
        processes: int = 1,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[str]:
        """Start a run with additional environment variables; its whole output goes to one pipe."""
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        launcher = torchrun if processes > 1 else []
        # The callbacks of the checks are in the checkout.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        words = self._words({"paths.system_folder": system, **settings})
        return subprocess.Popen(
            [sys.executable, *launcher, str(RECIPE), "quickstart", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **variables},
        )

    def run(
        self,
        system: str,
        settings: dict[str, Any],
        processes: int = 1,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Ended:
        """Run to the end."""
        return ended(self.start(system, settings, processes, variables))

    def eers(self, system: str) -> dict[str, float]:
        """Return the EER of the chosen network on each evaluation set.

        Raises:
            RuntimeError: there are no results.
        """
        results = read_results(self.output / system / "results" / "results.json")
        if not results:
            raise RuntimeError(f"the run '{system}' has no results")
        # In a report, remarks and a format other than fp32 follow the set's name.
        return {result.set.partition(", ")[0]: result.eer for result in results}

    def networks(self, system: str) -> Path:
        """Return the folder of its networks."""
        return self.output / system / "networks"

    def _words(self, settings: dict[str, Any]) -> Sequence[str]:
        # One corpus for all groups.
        corpus = Path(self._setup.folder) / _CORPUS
        places = {"paths.output_folder": str(self.output), "paths.database_folder": str(corpus)}
        return [f"{name}={value!r}" for name, value in {**places, **settings}.items()]


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a run, and write its output to the log."""
    output, _ = process.communicate()
    print(output, flush=True)
    return Ended(process.returncode, output)


def last_line(run: Ended) -> str:
    """Return the message of a failed run."""
    return error_line(run.output)
