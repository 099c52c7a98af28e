"""The command `asdf-antispoofing`, which is `python -m asdf` by a safe name."""

from __future__ import annotations


def main() -> int:
    """Run the command line of this process and return its exit status."""
    from asdf.__main__ import main as run_command

    return run_command()
