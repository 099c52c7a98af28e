"""ASDF under a name that no other distribution has: `asdf_antispoofing.Detector("network.pt")`.

Astronomy has a file format library of the import name asdf as well, and whichever of the two is
installed last overwrites files of the other. Invariant: after `import asdf_antispoofing`, `import
asdf` is ASDF in this process and in those that it starts, whatever was installed last.
"""

from typing import TYPE_CHECKING, Any

from asdf_antispoofing.clash import use_this_asdf

use_this_asdf()

import asdf  # noqa: E402

if TYPE_CHECKING:
    from asdf import Detector as Detector
    from asdf import __version__ as __version__


def __getattr__(name: str) -> Any:
    """Return `Detector` and what else `asdf` has."""
    return getattr(asdf, name)


def __dir__() -> list[str]:
    """List what `asdf` has, so that Tab in a notebook completes it."""
    return sorted({*dir(asdf), *globals()})
