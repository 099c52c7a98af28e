"""The command of the corpora of the field, `corpora`, in parts."""
