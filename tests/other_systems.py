"""Run a program as on a system that lacks what Windows or macOS lacks: in a process of its own.

    python -m tests.other_systems windows -m asdf score net.pt a.wav

What ASDF builds on comes first, as it would there from builds of that system. Then modules cannot
be imported any more, and functions, flags and signals are gone.
"""

import os
import runpy
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec

# They look at the system while they are imported, and some of them while they work.
_FIRST = (
    "asyncio",
    "concurrent.futures",
    "filelock",
    "filelock._soft",
    "matplotlib.figure",
    "multiprocessing.connection",
    "multiprocessing.context",
    "multiprocessing.shared_memory",
    "multiprocessing.util",
    "numpy",
    "soundfile",
    "torch",
    "torch._dynamo",
    "torch.distributed",
    "torch.distributed.checkpoint",
    "torch.multiprocessing",
    "torchaudio",
)
_MACOS = ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "O_DIRECT", "O_TMPFILE")
_WINDOWS = (
    *_MACOS,
    *("O_CLOEXEC", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_SYNC"),
    *("fork", "forkpty", "register_at_fork", "killpg", "setsid", "getuid", "geteuid", "getpgid"),
    *("pread", "pwrite", "preadv", "pwritev", "sendfile", "statvfs", "fstatvfs", "sync", "uname"),
    *("sysconf", "getloadavg", "mkfifo", "chown", "nice", "wait", "WNOHANG", "ttyname"),
)
MODULES = {"macos": (), "windows": ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")}
OF_OS = {"macos": _MACOS, "windows": _WINDOWS}
OF_SIGNAL = {
    "macos": ("sigwaitinfo", "sigtimedwait", "SIGPWR"),
    "windows": (
        *("SIGUSR1", "SIGUSR2", "SIGKILL", "SIGHUP", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGPWR"),
        *("pthread_sigmask", "pthread_kill", "sigwait", "sigwaitinfo", "sigtimedwait", "alarm"),
    ),
}
PLATFORMS = {"macos": "darwin", "windows": "win32"}


def become(system: str, first: Iterable[str] = _FIRST) -> None:
    """Hide from this process what `system` lacks: 'macos' or 'windows'.

    Args:
        first: modules that are imported before, as they would not be afterwards.
    """
    for name in first:
        if find_spec(name.partition(".")[0]):
            import_module(name)
    for name in MODULES[system]:
        # An entry of None makes the import fail.
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, OF_OS[system]), (signal, OF_SIGNAL[system])):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = PLATFORMS[system]


def main(words: list[str]) -> None:
    """Run `-m MODULE ...` or a file with its arguments."""
    become(words[0])
    if words[1] == "-m":
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words[1:]
        runpy.run_path(words[1], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
