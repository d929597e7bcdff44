"""One container's CRI resources in the words of OCI and Docker, and what OCI runtimes write for them.

`oci` and `docker` translate, and say what cannot be said; `runtime_rules` tells the files that come of it.
"""
