"""Which tests a run has: from settings and markers to cases, their groups, and who runs them."""
