"""The reference engine: which value each control file must hold, and why. Pure: no I/O, no clock, no packages."""
