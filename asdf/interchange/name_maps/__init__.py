"""Layouts of toolkits and challenges whose layers are ours by other names, in and out."""
