"""KubeletConfigurations from files, and the catalogue of kubelets that suites stand in for."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import load_settings
from memqos.engine.release import Release, Variant
from memqos.errors import ManifestError, UnknownNameError
from memqos.model.node import KubeletSettings

__all__ = ["KubeletCase", "load_kubelets"]

_FIELDS = frozenset({"purpose", "kubernetes", "as", "config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCase:
    """A kubelet to stand in for: a release, a configuration, and which variant of the rules.

    id: as in test ids ("v1.27-documented"). purpose: what it adds to the others. release: "1.27".
    """

    id: str
    purpose: str
    release: str
    variant: Variant
    settings: KubeletSettings


def load_kubelets(root: Path | None = None) -> tuple[KubeletCase, ...]:
    """Every kubelet of fixtures/kubelets.toml, in its order.

    root: the folder that holds `fixtures`; None is memqos's own. Raises ManifestError naming file and field.
    """
    file = (root or data_root()) / "fixtures" / "kubelets.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file)) from None
    return tuple(_case(name, fields, file) for name, fields in document.items())


def select(kubelets: Sequence[KubeletCase], releases: Sequence[str], *, where: str = "") -> tuple[KubeletCase, ...]:
    """The kubelets of these releases ("1.27" or "v1.27"), in their order; no release is every kubelet.

    Raises UnknownNameError for a release of which there is no kubelet.
    """
    known = list(dict.fromkeys(kubelet.release for kubelet in kubelets))
    wanted = [release.removeprefix("v") for release in releases]
    for release in wanted:
        if release not in known:
            raise UnknownNameError.of("kubelet of the release", release, known, where=where)
    return tuple(kubelet for kubelet in kubelets if not wanted or kubelet.release in wanted)


def _case(name: str, fields: object, file: Path) -> KubeletCase:
    if not isinstance(fields, dict) or set(fields) != _FIELDS or not all(isinstance(v, str) for v in fields.values()):
        raise ManifestError.at(
            f"a kubelet has exactly the texts {', '.join(sorted(_FIELDS))}.", file=str(file), field=name, got=fields
        )
    variants = [variant.value for variant in Variant]
    if fields["as"] not in variants:
        raise ManifestError.at(
            f"'as' is one of {', '.join(variants)} (got '{fields['as']}').", file=str(file), field=name
        )
    return KubeletCase(
        id=name,
        purpose=fields["purpose"],
        release=str(Release.parse(fields["kubernetes"])),
        variant=Variant(fields["as"]),
        settings=load_settings(file.parent / "kubelet" / fields["config"]),
    )
