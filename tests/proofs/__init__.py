"""What the project computes, frozen as files: a change of its structure must not change them.

Files of tests/fixtures/proofs are compared word by word, and numbers within a tolerance, since
the last digits of float32 and of some float64 functions are a processor's. To compare bytes on one
machine, let both revisions write their files, and let git show what differs:

    git stash; ASDF_FREEZE=1 pytest tests/proofs; git add tests/fixtures/proofs
    git stash pop; ASDF_FREEZE=1 pytest tests/proofs; git diff tests/fixtures/proofs
"""
