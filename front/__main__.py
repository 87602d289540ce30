"""`python -m tuskml` is the `tuskml` command."""

import sys

from tuskml.commands.cli import main

sys.exit(main())
