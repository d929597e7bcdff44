"""A small profile that tests build on."""

from memqos.vm.image.recipe import Keys
from memqos.vm.profile import GuestFile, Profile, Program, SourceFile

PROFILE = Profile(
    name="small",
    purpose="tests",
    suite="trixie",
    kernel="linux-image-cloud-amd64",
    packages=("containerd", "runc"),
    kernel_arguments=("root=/dev/vda",),
    masked_units=("apt-daily.timer",),
    enabled_units=("memqos-swap.service",),
    files=(
        GuestFile(path="/etc/hostname", content=b"memqos\n"),
        GuestFile(path="/usr/lib/memqos/swap-on", content=b"#!/bin/sh\n"),
    ),
    programs=(Program(name="pause", sources=(SourceFile(name="pause.c", content=b"int main(void) { return 0; }\n"),)),),
)

KEYS = Keys(client_public="ssh-ed25519 CLIENT\n", host_private="HOST PRIVATE\n", host_public="ssh-ed25519 HOST\n")
