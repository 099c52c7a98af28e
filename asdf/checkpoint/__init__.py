"""Network files: writing, reading and checking them, and building the described networks.

Invariant: nothing in a file is executed, and no more memory is used than a file justifies. The
layouts of other programs are read by `asdf.interchange`, which builds on this room.
"""
