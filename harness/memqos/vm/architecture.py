"""The CPU architectures for which memqos builds programs and machines, with each field's name for them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AMD64", "ARCHITECTURES", "ARM64", "PPC64LE", "Architecture", "architecture_of_machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One CPU architecture.

    name: as container images spell it (OCI image-spec, GOARCH). machine: what `uname -m` prints. debian: dpkg's name.
    elf: e_machine of its programs (elf(5)). gnu: the triplet of Debian's cross compiler and libraries. qemu: the
    program that emulates it; "" if memqos boots no machines of it. qemu_package: Debian's package with it. console: the
    serial console's name in the kernel of QEMU's machine.
    """

    name: str
    machine: str
    debian: str
    elf: int
    gnu: str
    qemu: str = ""
    qemu_package: str = ""
    console: str = ""

    @property
    def compiler(self) -> str:
        """The cross compiler's program."""
        return f"{self.gnu}-gcc"

    @property
    def compiler_packages(self) -> tuple[str, str]:
        """The Debian packages with the cross compiler and a static C library for it."""
        return f"gcc-{self.gnu.replace('_', '-')}", f"libc6-dev-{self.debian}-cross"


AMD64 = Architecture(
    name="amd64",
    machine="x86_64",
    debian="amd64",
    elf=62,
    gnu="x86_64-linux-gnu",
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    console="ttyS0",
)
ARM64 = Architecture(
    name="arm64",
    machine="aarch64",
    debian="arm64",
    elf=183,
    gnu="aarch64-linux-gnu",
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    console="ttyAMA0",
)
PPC64LE = Architecture(
    name="ppc64le",
    machine="ppc64le",
    debian="ppc64el",
    elf=21,
    gnu="powerpc64le-linux-gnu",
    qemu="qemu-system-ppc64",
    qemu_package="qemu-system-ppc",
    console="hvc0",
)

ARCHITECTURES: tuple[Architecture, ...] = (
    AMD64,
    ARM64,
    PPC64LE,
    Architecture(name="riscv64", machine="riscv64", debian="riscv64", elf=243, gnu="riscv64-linux-gnu"),
    Architecture(name="s390x", machine="s390x", debian="s390x", elf=22, gnu="s390x-linux-gnu"),
)
"""The architectures with a cross compiler in Debian and a container runtime."""


def architecture_of_machine(machine: str) -> Architecture | None:
    """The architecture for which `uname -m` prints this; None for one without memqos programs."""
    return next((one for one in ARCHITECTURES if one.machine == machine), None)
