"""Network files: what they hold, written, read and checked, and the networks that they describe.

Invariant: nothing in a file is executed, and no memory is taken for more than a file brings. How
the layouts of other programs are read is the matter of `asdf.interchange`, which builds on this.
"""
