"""The program that memqos sends to targets, and the process on this host that talks to it.

`main` and its imports run on the target, with only the standard library of Python 3.9 and jeepney's messages. `program`
and `process` run on this host.
"""
