"""Third-party engines that distribute ASDF's work over machines.

They are imported on use; each is a separate extra.
"""

from __future__ import annotations

from asdf.engines.ray import RayCluster, Scorer, run_parts

__all__ = ["RayCluster", "Scorer", "run_parts"]
