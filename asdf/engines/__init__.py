"""Engines of others that spread ASDF's work over machines.

They are imported when they are used; each is an extra of its own.
"""

from __future__ import annotations

from asdf.engines.ray import RayCluster, Scorer, run_parts

__all__ = ["RayCluster", "Scorer", "run_parts"]
