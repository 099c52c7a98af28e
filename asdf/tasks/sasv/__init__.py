"""Spoofing-robust speaker verification: SASV trials, their metrics and files."""
