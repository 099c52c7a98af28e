"""Ideas of recent papers as a user writes them: a file each, next to run.py.

`tests/recipes/test_ideas.py` trains each of them, and those of docs.
"""
