"""Panels of detectors: a test of which detectors are competent on the recordings of a case."""
