# Settings that all run configs of this recipe start from. This file is read, never run: a line is
# `section.name = <Python literal>`. Relative paths are relative to the recipe's folder.

# Everything that the recipe writes goes below this folder. On a cluster: '$SCRATCH/asdf' or the
# like.
paths.output_folder = 'output'

# The folder that holds the corpora; their lists are named at the top of run.py.
# On a cluster's node-local disk: '$LOCAL_SCRATCH'.
paths.database_folder = 'corpora'
