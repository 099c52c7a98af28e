"""Checks of this machine, with advice on how to fix problems.

Invariant: an examination ends, whatever is broken. Each group of steps runs in its own process with
a time limit: a crash of torch, a hanging driver or a dead network disk affects only the rest of
that group, and is a finding itself.
"""

from asdf.doctor.finding import MISSING, OK, WARNING, Finding
from asdf.doctor.running import examine

__all__ = ["MISSING", "OK", "WARNING", "Finding", "examine"]
