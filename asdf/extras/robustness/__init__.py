"""Robustness of detectors to degradations: speech that is coded, mixed, replayed or cut."""
