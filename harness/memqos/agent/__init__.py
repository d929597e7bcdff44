"""The one program that memqos sends to machines, and the process on this host that talks to it.

`main` and what it imports run there: with the standard library of Python 3.9, jeepney's messages, and each other. Only
`program` and `process` run here.
"""
