"""The acceptance run for a machine with a GPU: what only a real one can show, in one command.

    python -m benchmarks gpu                       # everything, less than 20 minutes on one GPU
    python -m benchmarks gpu --only values waits   # some groups of checks
    python -m benchmarks gpu --list                # what it checks; needs no GPU
    python -m benchmarks gpu --quick               # everything small: only shows that it runs

Nothing is downloaded: networks have random weights, the corpora are made, published weights are
those of the checkout's tests. Each line is PASS, FAIL or NOT RUN, with its number, its target and
the reason. It ends with one file to send to the project, which names neither the machine nor its
users. Exit status: 0, 1 where a line is FAIL, 2 where there is no GPU, 130 where it was stopped.

    command.py      the command line
    groups.py       the groups of checks, their time budgets, the sizes of what they compute
    running.py      runs each group in a separate process, so that none can end or spoil another
    worker.py       is that process
    verdict.py      a line, and what makes it PASS or FAIL
    report.py       the file
    measure.py      takes training steps of one case and says what they cost
    watching.py     waits of the host;  operations.py  work of the device;  peaks.py  peak rates
    presence.py     which settings this version has
    null_counts.py  `python -m benchmarks gpu-counts`: what is counted without a GPU

The other files are the groups.
"""
