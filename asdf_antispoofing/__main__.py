"""`python -m asdf_antispoofing`: the command asdf-antispoofing where no folder of commands is."""

import sys

from asdf_antispoofing.command import main

if __name__ == "__main__":
    sys.exit(main())
