"""``python -m headrace``, and the file that ``spark-submit`` runs: the command line."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.path[0] == str(Path(__file__).resolve().parent):
        # Run by its path, not by its name: modules of a project must not be hidden by those of the package.
        del sys.path[0]
    from headrace.cli.entry import main

    main()
