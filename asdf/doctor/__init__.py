"""What works on this machine, and the lines that install what is missing."""
