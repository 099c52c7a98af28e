"""Layouts of published detectors, and networks of single papers or toolkits."""
