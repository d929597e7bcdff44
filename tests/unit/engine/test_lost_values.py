"""The first hop that loses a requested value, named in one line."""

import pytest

from memqos.engine.answer.document import finding_document, finding_from
from memqos.engine.answer.explain import failure
from memqos.engine.answer.finding import (
    Finding,
    Hop,
    HopHeld,
    Loss,
    Setter,
    Subject,
    Verdict,
    changed_later,
    first_lost,
    unseen_loss,
)

ASKED = "unified memory.high = 104857600"
IN_UNIT = "MemoryHigh=104857600"
HOPS = (Hop.SPEC, Hop.CONFIG, Hop.STATE, Hop.UNIT)


def hops(**held):
    """Every hop with its expected text; "" does not set it, None was not observable."""
    found = []
    for hop in HOPS:
        asked = IN_UNIT if hop is Hop.UNIT else ASKED
        said = held.get(hop.name.lower(), asked)
        found.append(HopHeld(hop=hop, asked=(asked,), held=said or "", why_not="there is none" if said is None else ""))
    return found


def told(*, own_bundle=False, **held):
    return first_lost(hops(**held), knob="memory.high", observed="max", own_bundle=own_bundle)


@pytest.mark.parametrize(
    ("held", "by", "line"),
    [
        (
            {"spec": "", "config": "", "state": "", "unit": "MemoryHigh=infinity"},
            "the daemon",
            (
                "first lost: the daemon (the request had unified memory.high = 104857600, "
                "the daemon's stored spec does not set it)"
            ),
        ),
        (
            {"config": "", "state": "", "unit": "MemoryHigh=infinity"},
            "the daemon, or a runtime that changed its config.json",
            (
                "first lost: the daemon, or a runtime that changed its config.json "
                "(the daemon's stored spec had unified memory.high = 104857600, config.json does not set it)"
            ),
        ),
        (
            {"own_bundle": True, "spec": None, "config": "", "state": "", "unit": None},
            "the OCI runtime, which changed its config.json",
            (
                "first lost: the OCI runtime, which changed its config.json "
                "(the request had unified memory.high = 104857600, config.json does not set it)"
            ),
        ),
        (
            {"state": "unified memory.high = 4096", "unit": "MemoryHigh=4096"},
            "the OCI runtime",
            (
                "first lost: the OCI runtime (config.json had unified memory.high = 104857600, "
                "the OCI runtime's state.json has unified memory.high = 4096)"
            ),
        ),
        (
            {"unit": "MemoryHigh=infinity"},
            "the OCI runtime, or another writer of the systemd unit",
            (
                "first lost: the OCI runtime, or another writer of the systemd unit (the OCI runtime's state.json had "
                "unified memory.high = 104857600, the systemd unit has MemoryHigh=infinity)"
            ),
        ),
        (
            {},
            "a writer after systemd",
            ("first lost: a writer after systemd (the systemd unit had MemoryHigh=104857600, memory.high has max)"),
        ),
        (
            {"state": None, "unit": None},
            "the OCI runtime",
            "first lost: the OCI runtime (config.json had unified memory.high = 104857600, memory.high has max)",
        ),
    ],
)
def test_the_first_hop_without_the_value_lost_it(held, by, line):
    loss = told(**held)
    assert (loss.by, loss.told) == (by, line)
    assert [hop.hop for hop in loss.hops] == list(HOPS)


def test_a_removed_unit_may_have_had_the_value():
    gone = HopHeld(hop=Hop.UNIT, why_not="systemd reports it as not-found", is_gone=True)
    loss = first_lost([*hops()[:2], gone], knob="memory.high", observed="max")
    assert loss.by == "the OCI runtime, or a writer after it"


def test_a_value_that_the_file_had_was_not_lost_by_an_earlier_hop():
    assert changed_later(hops(), knob="memory.high", held="104857600", observed="max").told == (
        "first lost: a writer while the container ran (memory.high had 104857600, and has max)"
    )


def test_an_unobservable_daemon_may_have_lost_it_before_config_json():
    assert told(spec=None, config="").by == "the daemon, or a runtime that changed its config.json"


def test_an_unrequested_value_is_set_and_not_lost():
    silent = [HopHeld(hop=Hop.CONFIG, asked=("",)), HopHeld(hop=Hop.STATE, asked=("",), held="memory.swap = 5")]
    assert first_lost(silent, knob="memory.swap.max", observed="5").told == (
        "first set: the OCI runtime (config.json did not set it, the OCI runtime's state.json has memory.swap = 5)"
    )


def test_the_value_of_either_version_counts_as_held():
    both = HopHeld(hop=Hop.SPEC, asked=("memory.swap = 5", ""), held="")
    assert not both.is_lost
    assert HopHeld(hop=Hop.SPEC, asked=("memory.swap = 5", ""), held="memory.swap = 6").is_lost


def test_without_an_observable_hop_the_reasons_are_named():
    loss = told(spec=None, config=None, state=None, unit=None)
    assert loss.by == ""
    assert loss.told == (
        "first lost: not observable: the daemon's stored spec: there is none; config.json: there is none; "
        "the OCI runtime's state.json: there is none; the systemd unit: there is none"
    )
    assert first_lost([], knob="memory.high", observed="max").told == ("first lost: not observable: no hop can be read")


FINDING = Finding(
    verdict=Verdict.DEVIATES,
    subject=Subject.of_container("app"),
    cgroup="/pod.slice/a.scope",
    knob="memory.high",
    set_by=Setter.RUNTIME,
    expected="104857600",
    observed="max",
    lost=Loss(by="the OCI runtime", told="first lost: the OCI runtime (…)", hops=tuple(hops(config=None))),
)


def test_a_finding_keeps_its_hops_as_a_document():
    document = finding_document(FINDING)
    assert document["lost"]["by"] == "the OCI runtime"
    assert document["lost"]["hops"][1] == {
        "hop": "config.json", "asked": ["unified memory.high = 104857600"], "held": "", "why_not": "there is none",
    }  # fmt: skip
    assert finding_from(document) == FINDING


def test_an_old_finding_without_hops_is_read():
    document = finding_document(FINDING)
    del document["lost"]
    assert finding_from(document).lost is None


def test_a_failure_names_the_setter_then_the_hop_that_lost_it():
    lines = failure(FINDING).splitlines()
    assert lines[2:4] == ["  set by   the runtime under test", "  hops     first lost: the OCI runtime (…)"]


def test_an_unseen_loss_says_so():
    assert unseen_loss("the daemon hangs").told == "first lost: not observable: the daemon hangs"
