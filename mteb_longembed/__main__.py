"""`python -m mteb_longembed` does the same as the command `mteb-longembed`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
