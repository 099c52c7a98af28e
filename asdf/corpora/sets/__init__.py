"""Definitions of the public corpora, in single files or tables; `registry` collects them.

To add a corpus, write a `KnownCorpus` with all facts about it in a file of this folder, and its
row in docs/corpora.md. tests/unit/corpora/test_adding.py reports what is missing.
"""
