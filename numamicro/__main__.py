"""``python -m numamicro``."""

import sys

from numamicro.cli import main

if __name__ == "__main__":
    sys.exit(main())
