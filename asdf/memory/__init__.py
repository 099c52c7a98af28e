"""How much memory a run will take on a GPU, before there is one."""
