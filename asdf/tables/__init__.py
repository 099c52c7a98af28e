"""Results as tables: columns that describe their values, and renderers for any kind of result.

Invariant: a kind of result is a list of columns, and an output format is a renderer. Neither knows
the other, so every format shows a new column, and a new format shows every kind of result.
"""
