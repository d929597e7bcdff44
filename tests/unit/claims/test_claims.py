import pytest

from memqos import claims
from memqos.claims import About, unproved
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.errors import ManifestError, UnknownNameError, UsageError

GOOD = {"sentence": "It holds.", "source": "KEP-2570", "releases": "1.22+", "kind": "state", "about": "runtime"}


def write(root, text, chapter="values"):
    (root / chapter).mkdir(exist_ok=True)
    (root / chapter / "claims.toml").write_text(text)


def claim(name="one", **changes):
    fields = {**GOOD, **changes}
    lines = [f"{key} = {value!r}" for key, value in fields.items() if value is not None]
    return "\n".join([f"[{name}]", *lines, ""])


def test_claims_of_all_chapters_are_found_by_id(tmp_path):
    write(tmp_path, claim("one") + claim("two", kind="behaviour", needs=["swap"]))
    write(tmp_path, claim("three"), chapter="numa")

    known = claims.load(tmp_path)

    assert set(known) == {"values/one", "values/two", "numa/three"}
    assert known["values/two"].needs == ("swap",)
    assert known["values/two"].kind is claims.ClaimKind.BEHAVIOUR
    assert known["values/two"].about is claims.About.RUNTIME
    assert known["numa/three"].chapter == "numa"
    assert "values/one" in known
    assert "values/nine" not in known
    assert len(known) == 3


def test_former_names_of_needs_are_read(tmp_path):
    """Up to 0.1 NUMA nodes were called zones."""
    write(tmp_path, claim(needs=["zones", "far zone", "swap"]))

    assert claims.load(tmp_path)["values/one"].needs == ("NUMA nodes", "far NUMA node", "swap")


def test_a_chapter_may_be_left_out_of_the_default_but_for_some_claims(tmp_path):
    more = claim("three").rstrip("\n") + "\ndefault = true\n"
    write(tmp_path, "default = false\n" + claim("one") + more + claim("two"))
    write(tmp_path, claim("four"), chapter="numa")

    known = claims.load(tmp_path)

    assert [one for one, each in known.items() if each.default] == ["numa/four", "values/three"]


def test_an_unknown_id_names_the_known_ones(tmp_path):
    write(tmp_path, claim("one"))

    with pytest.raises(
        UnknownNameError, match=r"there is no claim 'values/nine'\. Did you mean 'values/one'\? Known: values/one"
    ):
        claims.load(tmp_path)["values/nine"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[one", "is not TOML"),
        ("one = 1", "values/one: it must be a table, not 1"),
        (claim(sentence=None), "missing required field 'sentence'"),
        (claim(source=" "), ":3: values/one: 'source' must be a string that is not blank, not ' '"),
        (claim(kind="feeling"), "'kind' must be one of state, behaviour, refusal, not 'feeling'"),
        (claim(about=None), "missing required field 'about'"),
        (claim(about="weather"), "'about' must be one of runtime, kernel, kubelet rules, kubelet, not 'weather'"),
        (claim(needs=["luck"]), ":7: values/one: 'needs' has an unknown need 'luck'. Known: swap"),
        (claim(needs="swap"), "'needs' must be a list, each item a string, not 'swap'"),
        (claim(colour="red"), "unknown field 'colour'"),
        (claim(default="never"), "'default' must be true or false"),
        ("default = 1\n" + claim(), ":1: values: it must be true or false, not 1"),
    ],
)
def test_a_wrong_claim_names_file_and_claim(tmp_path, text, words):
    write(tmp_path, text)

    with pytest.raises(ManifestError, match=words) as told:
        claims.load(tmp_path)
    assert told.value.where.startswith(str(tmp_path / "values" / "claims.toml"))


def test_a_file_that_is_not_text_is_refused(tmp_path):
    write(tmp_path, "")
    (tmp_path / "values" / "claims.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(ManifestError, match="is not TOML"):
        claims.load(tmp_path)


def test_a_folder_without_claims_is_no_suites_folder(tmp_path):
    assert not claims.is_suites_root(tmp_path)
    with pytest.raises(UsageError, match=r"there is no chapter with a claims\.toml"):
        claims.load(tmp_path)


def found(set_by, verdict=Verdict.CONFORMS):
    return Finding(
        verdict=verdict,
        subject=Subject.of_machine("s"),
        cgroup="/c",
        knob="k",
        set_by=set_by,
        expected="1",
        observed="1",
    )


def test_own_writes_read_back_prove_nothing_of_a_runtime():
    own = [found(Setter.MEMQOS), found(Setter.SYSTEMD), found(Setter.KERNEL)]

    assert unproved(About.RUNTIME, own) == (
        "the claim is about the runtime, and nothing set by the runtime under test was observed, only values set by "
        "others: memqos in the kubelet's place, systemd, the kernel"
    )
    assert unproved(About.RUNTIME, [*own, found(Setter.RUNTIME)]) == ""


def test_what_of_the_runtime_was_not_observed_proves_nothing_either():
    assert unproved(About.RUNTIME, [found(Setter.MEMQOS), found(Setter.RUNTIME, Verdict.NOT_OBSERVABLE)])


def test_a_claim_about_the_kernel_rests_on_what_the_kernel_does():
    assert unproved(About.KERNEL, [found(Setter.RUNTIME)])
    assert unproved(About.KERNEL, [found(Setter.RUNTIME), found(Setter.KERNEL)]) == ""


def test_the_kubelets_rules_hold_whoever_writes_their_values():
    assert unproved(About.KUBELET_RULES, [found(Setter.MEMQOS)]) == ""
