"""Localisation: which parts of a recording are spoofed."""
