"""The program asdf-antispoofing and its recipes, by a name that no other distribution has.

The import name is asdf: `import asdf; asdf.Detector("network.pt")`.
"""
