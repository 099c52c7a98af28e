"""Panels of detectors: which of them are competent on the recordings of a case, by test."""
