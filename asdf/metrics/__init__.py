"""Metrics computed from scores: DET curves, costs, tandem costs, intervals; numpy only."""
