"""A module that leaves while it is imported."""

import sys

sys.exit(7)
