"""Requests made of the runtime itself: what a container holds that was created with one, and updated with others.

The requests are those of fixtures/requests.toml. Every file of the container is judged after them, also those that no
request names; the pod and the container beside it must hold what they held before.
"""

import pytest


@pytest.mark.claim("requests/nothing")
def test_nothing(qos_requests, qos_evidence):
    """A container of which nothing is asked has the kernel's defaults in every memory file."""
    qos_evidence.settle(qos_requests("nothing"))


@pytest.mark.claim("requests/limit")
def test_limit(qos_requests, qos_evidence):
    """A memory limit alone is memory.max, and means no swap."""
    qos_evidence.settle(qos_requests("limit"))


@pytest.mark.claim("requests/limit-in-odd-bytes")
def test_limit_in_odd_bytes(qos_requests, qos_evidence):
    """A memory limit that is no whole page is rounded down to pages by the kernel, and by nobody before it."""
    qos_evidence.settle(qos_requests("limit-in-odd-bytes"))


@pytest.mark.claim("requests/limit-and-swap")
def test_limit_and_swap(qos_requests, qos_evidence):
    """A limit of memory and swap becomes memory.swap.max without the memory in it."""
    qos_evidence.settle(qos_requests("limit-and-swap"))


@pytest.mark.claim("requests/no-swap")
def test_no_swap(qos_requests, qos_evidence):
    """A limit of memory and swap that is the memory limit means memory.swap.max 0."""
    qos_evidence.settle(qos_requests("no-swap"))


@pytest.mark.claim("requests/unlimited-swap")
def test_unlimited_swap(qos_requests, qos_evidence):
    """A limit of memory and swap of -1 means memory.swap.max max."""
    qos_evidence.settle(qos_requests("unlimited-swap"))


@pytest.mark.claim("requests/unlimited-memory")
def test_unlimited_memory(qos_requests, qos_evidence):
    """A memory limit of -1 means memory.max max."""
    qos_evidence.settle(qos_requests("unlimited-memory"))


@pytest.mark.claim("requests/shares")
def test_shares(qos_requests, qos_evidence):
    """cpu_shares become cpu.weight by the conversion of the runtime's version, and nothing else changes."""
    qos_evidence.settle(qos_requests("shares"))


@pytest.mark.claim("requests/quota")
def test_quota(qos_requests, qos_evidence):
    """A quota and its period become cpu.max."""
    qos_evidence.settle(qos_requests("quota"))


@pytest.mark.claim("requests/cpus")
def test_cpus(qos_requests, qos_evidence):
    """cpuset_cpus become cpuset.cpus."""
    qos_evidence.settle(qos_requests("cpus"))


@pytest.mark.claim("requests/mems")
def test_mems(qos_requests, qos_evidence):
    """cpuset_mems become cpuset.mems, and no other zone."""
    qos_evidence.settle(qos_requests("mems"))


@pytest.mark.claim("requests/oom-score")
def test_oom_score(qos_requests, qos_evidence):
    """oom_score_adj reaches the container's first process."""
    qos_evidence.settle(qos_requests("oom-score"))


@pytest.mark.claim("requests/huge-pages")
def test_huge_pages(qos_requests, qos_evidence):
    """A limit of huge pages becomes hugetlb.2MB.max."""
    qos_evidence.settle(qos_requests("huge-pages"))


@pytest.mark.claim("requests/unified-min")
def test_unified_min(qos_requests, qos_evidence):
    """Unified carries memory.min into its file as it is."""
    qos_evidence.settle(qos_requests("unified-min"))


@pytest.mark.claim("requests/unified-low")
def test_unified_low(qos_requests, qos_evidence):
    """Unified carries memory.low into its file as it is."""
    qos_evidence.settle(qos_requests("unified-low"))


@pytest.mark.claim("requests/unified-high")
def test_unified_high(qos_requests, qos_evidence):
    """Unified carries memory.high into its file as it is."""
    qos_evidence.settle(qos_requests("unified-high"))


@pytest.mark.claim("requests/unified-max")
def test_unified_max(qos_requests, qos_evidence):
    """Unified carries memory.max into its file, and swap is left alone."""
    qos_evidence.settle(qos_requests("unified-max"))


@pytest.mark.claim("requests/unified-no-swap")
def test_unified_no_swap(qos_requests, qos_evidence):
    """Unified memory.swap.max, as the kubelet sends it, wins over the limit of memory and swap."""
    qos_evidence.settle(qos_requests("unified-no-swap"))


@pytest.mark.claim("requests/unified-oom-group")
def test_unified_oom_group(qos_requests, qos_evidence):
    """Unified carries memory.oom.group into its file."""
    qos_evidence.settle(qos_requests("unified-oom-group"))


@pytest.mark.claim("requests/unified-over-limit")
def test_unified_over_limit(qos_requests, qos_evidence):
    """Where unified and a field of its own name the same file, unified wins."""
    qos_evidence.settle(qos_requests("unified-over-limit"))


@pytest.mark.claim("requests/unified-other-controller")
def test_unified_other_controller(qos_requests, qos_evidence):
    """Unified carries a file of another controller than memory."""
    qos_evidence.settle(qos_requests("unified-other-controller"))


@pytest.mark.claim("requests/everything")
def test_everything(qos_requests, qos_evidence):
    """All fields at once become what each of them becomes alone."""
    qos_evidence.settle(qos_requests("everything"))


@pytest.mark.claim("requests/update-limit")
def test_update_limit(qos_requests, qos_evidence):
    """An update of both limits changes memory.max, and no file that it does not name, unified ones included."""
    qos_evidence.settle(qos_requests("update-limit"))


@pytest.mark.claim("requests/update-memory-limit-alone")
def test_update_memory_limit_alone(qos_requests, qos_evidence):
    """An update of the memory limit alone changes memory.max, and of swap what the runtime's version does."""
    qos_evidence.settle(qos_requests("update-memory-limit-alone"))


@pytest.mark.claim("requests/update-down")
def test_update_down(qos_requests, qos_evidence):
    """An update may lower the limits of a container that uses less."""
    qos_evidence.settle(qos_requests("update-down"))


@pytest.mark.claim("requests/update-swap")
def test_update_swap(qos_requests, qos_evidence):
    """An update that raises only the limit of memory and swap raises memory.swap.max."""
    qos_evidence.settle(qos_requests("update-swap"))


@pytest.mark.claim("requests/update-swap-off")
def test_update_swap_off(qos_requests, qos_evidence):
    """An update can turn swap off."""
    qos_evidence.settle(qos_requests("update-swap-off"))


@pytest.mark.claim("requests/update-unified-high")
def test_update_unified_high(qos_requests, qos_evidence):
    """An update of memory.high by unified changes that file, and keeps the others that unified set before."""
    qos_evidence.settle(qos_requests("update-unified-high"))


@pytest.mark.claim("requests/update-unified-min")
def test_update_unified_min(qos_requests, qos_evidence):
    """An update of memory.min by unified changes that file and no other."""
    qos_evidence.settle(qos_requests("update-unified-min"))


@pytest.mark.claim("requests/update-unified-clears")
def test_update_unified_clears(qos_requests, qos_evidence):
    """Protection and throttling can be taken back by unified with 0 and max."""
    qos_evidence.settle(qos_requests("update-unified-clears"))


@pytest.mark.claim("requests/update-unified-oom-group")
def test_update_unified_oom_group(qos_requests, qos_evidence):
    """memory.oom.group can be switched off again."""
    qos_evidence.settle(qos_requests("update-unified-oom-group"))


@pytest.mark.claim("requests/update-shares")
def test_update_shares(qos_requests, qos_evidence):
    """An update of cpu_shares changes cpu.weight and leaves memory alone."""
    qos_evidence.settle(qos_requests("update-shares"))


@pytest.mark.claim("requests/update-quota")
def test_update_quota(qos_requests, qos_evidence):
    """An update of the quota changes cpu.max and leaves memory alone."""
    qos_evidence.settle(qos_requests("update-quota"))


@pytest.mark.claim("requests/update-quota-off")
def test_update_quota_off(qos_requests, qos_evidence):
    """A quota of -1 takes the CPU limit away and leaves memory alone."""
    qos_evidence.settle(qos_requests("update-quota-off"))


@pytest.mark.claim("requests/update-mems")
def test_update_mems(qos_requests, qos_evidence):
    """An update of cpuset_mems changes the zones of a running container, and nothing else."""
    qos_evidence.settle(qos_requests("update-mems"))


@pytest.mark.claim("requests/update-cpus")
def test_update_cpus(qos_requests, qos_evidence):
    """An update of cpuset_cpus changes the CPUs of a running container, and nothing else."""
    qos_evidence.settle(qos_requests("update-cpus"))


@pytest.mark.claim("requests/update-everything")
def test_update_everything(qos_requests, qos_evidence):
    """An update of every field at once is carried out whole."""
    qos_evidence.settle(qos_requests("update-everything"))


@pytest.mark.claim("requests/update-twice")
def test_update_twice(qos_requests, qos_evidence):
    """A later update does not take back what an earlier one set."""
    qos_evidence.settle(qos_requests("update-twice"))


@pytest.mark.claim("requests/update-nothing")
def test_update_nothing(qos_requests, qos_evidence):
    """An update that specifies nothing changes nothing."""
    qos_evidence.settle(qos_requests("update-nothing"))


@pytest.mark.claim("requests/refuses-unknown-key")
def test_refuses_unknown_key(qos_requests, qos_evidence):
    """A unified key that is no control file is refused, and no container is left behind."""
    qos_evidence.settle(qos_requests("refuses-unknown-key"))


@pytest.mark.claim("requests/refuses-key-with-slash")
def test_refuses_key_with_slash(qos_requests, qos_evidence):
    """A unified key with a slash is refused: it could name another cgroup's file."""
    qos_evidence.settle(qos_requests("refuses-key-with-slash"))


@pytest.mark.claim("requests/refuses-no-number")
def test_refuses_no_number(qos_requests, qos_evidence):
    """A value that is no amount is refused, and no container is left behind."""
    qos_evidence.settle(qos_requests("refuses-no-number"))


@pytest.mark.claim("requests/refuses-negative")
def test_refuses_negative(qos_requests, qos_evidence):
    """A negative amount in unified is refused."""
    qos_evidence.settle(qos_requests("refuses-negative"))


@pytest.mark.claim("requests/refuses-bad-oom-group")
def test_refuses_bad_oom_group(qos_requests, qos_evidence):
    """A memory.oom.group other than 0 and 1 is refused."""
    qos_evidence.settle(qos_requests("refuses-bad-oom-group"))


@pytest.mark.claim("requests/refuses-swap-below-limit")
def test_refuses_swap_below_limit(qos_requests, qos_evidence):
    """A limit of memory and swap below the memory limit is refused."""
    qos_evidence.settle(qos_requests("refuses-swap-below-limit"))


@pytest.mark.claim("requests/refuses-missing-zone")
def test_refuses_missing_zone(qos_requests, qos_evidence):
    """A zone that the machine does not have is refused."""
    qos_evidence.settle(qos_requests("refuses-missing-zone"))


@pytest.mark.claim("requests/refuses-missing-cpu")
def test_refuses_missing_cpu(qos_requests, qos_evidence):
    """A CPU that the machine does not have is refused."""
    qos_evidence.settle(qos_requests("refuses-missing-cpu"))


@pytest.mark.claim("requests/refuses-missing-huge-pages")
def test_refuses_missing_huge_pages(qos_requests, qos_evidence):
    """A size of huge pages that the kernel does not have is refused."""
    qos_evidence.settle(qos_requests("refuses-missing-huge-pages"))


@pytest.mark.claim("requests/update-refuses-swap-below-limit")
def test_update_refuses_swap_below_limit(qos_requests, qos_evidence):
    """An update with a limit of memory and swap below the memory limit is refused, and changes nothing."""
    qos_evidence.settle(qos_requests("update-refuses-swap-below-limit"))


@pytest.mark.claim("requests/update-refuses-unknown-key")
def test_update_refuses_unknown_key(qos_requests, qos_evidence):
    """An update with a unified key that is no control file is refused, and changes nothing."""
    qos_evidence.settle(qos_requests("update-refuses-unknown-key"))


@pytest.mark.claim("requests/update-refuses-no-number")
def test_update_refuses_no_number(qos_requests, qos_evidence):
    """An update with a value that is no amount is refused, and changes nothing."""
    qos_evidence.settle(qos_requests("update-refuses-no-number"))
