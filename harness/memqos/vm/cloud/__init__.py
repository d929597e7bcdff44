"""Machines from a distribution's own disk image: checks of the file, firmware, cloud-init's seed, and the boot."""
