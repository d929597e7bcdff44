"""The reference engine: which value each interface file must hold, and why. Pure: no I/O, no clock, no packages."""
