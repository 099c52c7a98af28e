"""Results as tables: columns that say what they are, and renderers that know no kind of result.

Invariant: a kind of result is a list of columns, and an output is a renderer. Neither knows the
other, so a new column is in every output, and a new output has every kind.
"""
