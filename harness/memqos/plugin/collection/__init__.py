"""Which tests a run has: from settings and markers to cases, their groups, and the workers that run them."""
