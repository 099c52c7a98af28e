"""The process that has imported torch, and forks for each program that a client wants.

It has one thread, and computes nothing: what it forks has a torch as if just imported.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

# What the programs of the tests import.
import av  # noqa: F401
import jinja2  # noqa: F401
import numpy  # noqa: F401
import soundfile  # noqa: F401
import torch
import torch._dynamo
import torch.distributed.elastic.agent.server.local_elastic_agent
import torch.distributed.launcher.api
import torchaudio  # noqa: F401

import asdf.checkpoint.network_reading
import asdf.commands.score
import asdf.evaluation
import asdf.metrics.summary
import asdf.recipe.opened_recipe
import asdf.recipe.stages
import asdf.recipe.training_stage
import asdf.scoring.detector
import asdf.training.loop  # noqa: F401


def serve(path: str, executable: str) -> None:
    """Fork for the clients that connect to the socket `path`, until standard input ends."""
    sys.executable = executable
    # Otherwise a program that has ended would be waited for in the middle of another's fork.
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    # No program collects the garbage of what was imported, which would copy its memory.
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    clients: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, wake, listener, *clients.values()], [], [])
        if 0 in ready:
            break
        if wake in ready:
            os.read(wake, 4096)
            report_ended(clients)
        if listener in ready:
            connection, _ = listener.accept()
            clients[start(connection, [listener, *clients.values()], (wake, woken))] = connection
        end_orphans(clients, ready)
    for program in clients:
        kill_group(program)


def kill_group(program: int) -> None:
    """Kill a program and what it has started, as a test does that kills a group of processes."""
    os.kill(program, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(program, signal.SIGKILL)


def report_ended(clients: dict[int, socket.socket]) -> None:
    """Report the programs that have ended to their clients, and forget them."""
    for program in list(clients):
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            with suppress(OSError):
                clients[program].sendall(b"%d\n" % status)
            clients.pop(program).close()


def end_orphans(clients: dict[int, socket.socket], ready: list[object]) -> None:
    """Kill the programs whose clients have been killed: these say nothing after their request."""
    for program, connection in clients.items():
        if connection in ready:
            kill_group(program)


def start(connection: socket.socket, others: list[socket.socket], pipe: tuple[int, int]) -> int:
    """Fork a program for a client, and return its process ID."""
    length, streams, _, _ = socket.recv_fds(connection, 8, 3)
    message = b""
    while len(message) < int.from_bytes(length, "big"):
        message += connection.recv(2**20)
    wanted = json.loads(message)
    program = os.fork()
    if program:
        for stream in streams:
            os.close(stream)
        connection.sendall(b"%d\n" % program)
        return program
    for other in [connection, *others]:
        other.close()
    for end in pipe:
        os.close(end)
    run(wanted, streams)
    raise AssertionError("a program does not return")


def run(wanted: dict, streams: list[int]) -> None:
    """Become the program, and end this process as it ends."""
    status = 1
    try:
        become(wanted, streams)
        execute(wanted["arguments"])
        status = 0
    except SystemExit as end:
        status = exit_status(end.code)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        end_process(status)


def become(wanted: dict, streams: list[int]) -> None:
    """Take the folder, the variables, the streams and the signals of the client."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in wanted["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target, inheritable=True)
        os.close(stream)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["variables"])
    # As Python makes them: lines at once on a terminal, all at once if that is wanted.
    sys.stdin = sys.__stdin__ = os.fdopen(0, "r", -1, "utf-8", closefd=False)
    buffering = 1 if os.isatty(1) else -1
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", buffering, "utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, "utf-8", closefd=False)
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    torch.manual_seed(int.from_bytes(os.urandom(4), "big"))


def execute(arguments: list[str]) -> None:
    """Run what the arguments of Python say: `-m module ...`, `-c code ...` or `file ...`."""
    while arguments and arguments[0] in ("-u", "-P"):
        arguments = arguments[1:]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


def exit_status(code: object) -> int:
    """Return the status of a process that `sys.exit(code)` ends."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def end_process(status: int) -> None:
    """End this process as Python does, but without what the server would do at its end."""
    import atexit
    import threading

    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        status = status or 120
    os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
