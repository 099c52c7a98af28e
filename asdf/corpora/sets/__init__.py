"""The corpora of the field, a file each or many in a table; `registry` looks for them here.

To add a corpus: a `KnownCorpus` in a file of this folder, with all that is known of it, and its
rows in docs/corpora.md. tests/unit/corpora/test_adding.py says what is missing.
"""
