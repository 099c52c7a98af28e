"""Lists of trials, label files, score files, and how they are matched; numpy only."""
