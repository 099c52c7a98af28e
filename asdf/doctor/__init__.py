"""What works on this machine, and the lines that install what is missing."""

from asdf.doctor.checks import MISSING, OK, WARNING, Finding, examine

__all__ = ["MISSING", "OK", "WARNING", "Finding", "examine"]
