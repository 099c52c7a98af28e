"""Layouts of toolkits and challenges that differ from ours only in layer names, in and out."""
