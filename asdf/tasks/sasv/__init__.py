"""Speaker verification that resists spoofing: the three trials of SASV, their metrics and files."""
