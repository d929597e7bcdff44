"""Translation of one container's CRI resources to OCI and Docker, and the files that OCI runtimes write.

`oci` and `docker` translate, and list fields without an equivalent; `runtime_rules` computes the files.
"""
