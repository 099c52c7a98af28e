"""ASDF, the Artificial Speech Detection Framework.

import asdf

asdf.Detector("network.pt").score("recording.mp3")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from asdf.version import VERSION
from asdf_antispoofing.clash import DISTRIBUTION as DISTRIBUTION
from asdf_antispoofing.clash import warn_of_neighbour
from asdf_antispoofing.missing import explain_missing_packages

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector as Detector

__all__ = ["Detector", "__version__"]
__version__ = VERSION

# Astronomy's file format library has the same import name; DISTRIBUTION tells the two apart.
warn_of_neighbour()
explain_missing_packages()


def __getattr__(name: str) -> Any:
    """Import `Detector` on first use, since it imports torch."""
    if name != "Detector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = import_module("asdf.scoring.detector").Detector
    return value


def __dir__() -> list[str]:
    """List the public names, including those not yet imported, so that Tab completes them."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
