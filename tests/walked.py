"""Print the files of ASDF that one action enters, in a process of its own.

python -m tests.walked score NETWORK.pt RECORDING.wav
python -m tests.walked evaluate SCORES.txt
python -m tests.walked plan RECIPE_FOLDER CONFIG
"""

import gc
import io
import json
import runpy
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import asdf

PACKAGE = Path(asdf.__file__).parent


def entered(action: Callable[[], object]) -> list[str]:
    """Return the files whose functions `action` calls, in any thread.

    It runs once before: what is imported or built at first is no part of the way.
    """
    action()
    gc.collect()
    gc.disable()
    files = set()

    def see(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and PACKAGE in path.parents:
            files.add(str(path.relative_to(PACKAGE)))

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(files)


def score(network: str, recording: str) -> Callable[[], object]:
    detector = asdf.Detector(network, "cpu")
    return lambda: detector.score_trial(recording)


def evaluate(scores: str) -> Callable[[], object]:
    from asdf.__main__ import main

    return lambda: main(["evaluate", scores])


def plan(folder: str, config: str) -> Callable[[], object]:
    run = Path(folder) / "run.py"

    def show() -> None:
        sys.argv = [str(run), config, "--dry-run"]
        try:
            runpy.run_path(str(run), run_name="__main__")
        except SystemExit as ended:
            assert not ended.code, ended.code

    return show


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        walked = entered({"score": score, "evaluate": evaluate, "plan": plan}[name](*words))
    print(json.dumps(walked))
