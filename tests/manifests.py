"""The pods of a text, for tests that have no file."""

import io

from memqos.catalog.manifests import Manifest, manifests_in
from memqos.model.pod import Pod


def pods_of(data: bytes, file: str) -> tuple[Pod, ...]:
    """Errors name the file."""
    return tuple(pod for one in manifests_in(io.BytesIO(data), file) if isinstance(one, Manifest) for pod in one.pods)
