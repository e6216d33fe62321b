"""`python -m outrider_draft`."""

import sys

from outrider_draft.cli import main

sys.exit(main())
