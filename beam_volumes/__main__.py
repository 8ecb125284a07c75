"""``python -m beam_volumes`` is the command ``beam-volumes``, wherever that is not on the path."""

import sys

from beam_volumes.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
