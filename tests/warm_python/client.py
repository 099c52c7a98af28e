"""What is started in place of Python: it has the server fork, and ends as the forked program ends.

It is run by `python -I -S`, and imports as little as it can.

The messages: one to the server, JSON with the three streams attached; one back as soon as the
program runs, its process ID; and one when it has ended, its status as `os.waitpid` returns it.
"""

import json
import os
import signal
import socket
import sys

# Those that tests send; all others end the client, and so the program.
HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def main() -> None:
    """Run a program on the server whose socket is the first argument."""
    # Until the program's ID is known a signal waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    # What was ignored before stays ignored, as in a process that is started the usual way.
    ignored = [s for s in HANDED_ON if signal.getsignal(s) == signal.SIG_IGN]
    wanted = {
        "arguments": sys.argv[2:],
        "folder": os.getcwd(),  # noqa: PTH109, pathlib takes long to import
        "variables": dict(os.environ),
        "ignored": ignored,
    }
    message = json.dumps(wanted).encode()
    socket.send_fds(connection, [len(message).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(message)
    answers = connection.makefile("rb")
    program = int(answers.readline())
    for number in HANDED_ON:
        if number not in ignored:
            signal.signal(number, lambda number, frame: os.kill(program, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    status = int(answers.readline() or b"256")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


main()
