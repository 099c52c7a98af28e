"""The command asdf-antispoofing, which is `python -m asdf` by a safe name."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process and return its exit status."""
    import asdf  # noqa: F401 (of whichever distribution)
    from asdf_antispoofing.clash import check_loaded

    try:
        check_loaded()
    except ImportError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    from asdf.__main__ import main as run_command

    return run_command()
