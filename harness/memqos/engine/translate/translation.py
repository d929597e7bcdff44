"""One container's resources in every language at once: the value that a plan carries where runtimes were named."""

from __future__ import annotations

from dataclasses import dataclass

from memqos.engine.translate.resources import DockerTranslation, OciTranslation, Unsayable
from memqos.engine.translate.writes import RuntimeWrites

__all__ = ["ContainerTranslation", "HeldFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """One control file.

    written: the text that the OCI runtime writes, "" if it writes none. shows: what the file then reads. reloaded:
    what it reads after `systemctl daemon-reload`, "" where that is not modelled (systemd with cgroup v1).
    """

    name: str
    written: str
    shows: str
    reloaded: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTranslation:
    """What became of one container's CRI message, for named versions of the runtimes.

    cri, oci_runtime: the two runtimes with their versions. cri_unsaid: what the message leaves to the runtime;
    cri_final: what an update cannot take back. oci: what reaches the OCI runtime. docker: the HostConfig that says the
    same. writes: what the OCI runtime does. files: of the cgroup with the processes; scope: of the systemd scope above
    it, where that is another one. refusal: why there is no container, "" if there is one; files are empty then.
    """

    cri: str
    oci_runtime: str
    cri_unsaid: tuple[Unsayable, ...]
    cri_final: tuple[Unsayable, ...]
    oci: OciTranslation
    docker: DockerTranslation
    writes: RuntimeWrites
    files: tuple[HeldFile, ...] = ()
    scope: tuple[HeldFile, ...] = ()
    refusal: str = ""
