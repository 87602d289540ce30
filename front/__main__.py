"""`python -m tuskml` is the `tuskml` command."""

import sys

from tuskml.cli import main

sys.exit(main())
