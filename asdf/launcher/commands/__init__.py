"""The command of many runs, `launch`, in parts."""
