"""Runs the recipe as a user does, with its outputs in a folder of the checks."""

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
    """How a run ended."""

    status: int
    output: str


class QuickstartRuns:
    """Runs of the quickstart into one output folder, each with a system folder of its own."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.output, self._setup = setup.new_folder(name), setup

    def start(
        self,
        system: str,
        settings: dict[str, Any],
        processes: int = 1,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[str]:
        """Start one, with more variables in its environment; all that it prints is one pipe."""
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        launcher = torchrun if processes > 1 else []
        # The callbacks of the checks lie in the checkout.
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
        """Run one to its end."""
        return ended(self.start(system, settings, processes, variables))

    def eers(self, system: str) -> dict[str, float]:
        """The EER of each evaluation set, of the network that was chosen.

        Raises:
            RuntimeError: there are no results.
        """
        results = read_results(self.output / system / "results" / "results.json")
        if not results:
            raise RuntimeError(f"the run '{system}' has no results")
        # A report says after a set's name that it chose the network, and any format but fp32.
        return {result.set.partition(", ")[0]: result.eer for result in results}

    def networks(self, system: str) -> Path:
        """The folder of its networks."""
        return self.output / system / "networks"

    def _words(self, settings: dict[str, Any]) -> Sequence[str]:
        # One corpus for all groups.
        corpus = Path(self._setup.folder) / _CORPUS
        places = {"paths.output_folder": str(self.output), "paths.database_folder": str(corpus)}
        return [f"{name}={value!r}" for name, value in {**places, **settings}.items()]


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a run; what it printed goes to the log as well."""
    output, _ = process.communicate()
    print(output, flush=True)
    return Ended(process.returncode, output)


def last_line(run: Ended) -> str:
    """What a failed run says."""
    return error_line(run.output)
