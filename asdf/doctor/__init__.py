"""What works on this machine, and how to fix what does not.

Invariant: an examination ends, whatever is broken. Each group of steps runs in a process of its
own with a time limit: a crash of torch, a driver that hangs or a dead network disk costs that group
the rest of its steps, and is a finding itself.
"""

from asdf.doctor.finding import MISSING, OK, WARNING, Finding
from asdf.doctor.running import examine

__all__ = ["MISSING", "OK", "WARNING", "Finding", "examine"]
