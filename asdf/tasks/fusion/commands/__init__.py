"""The command of fused systems, `fuse`, in parts."""
