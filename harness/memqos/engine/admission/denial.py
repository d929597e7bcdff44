"""The API server's error for a pod that it does not store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from memqos.engine.plan import Input, Reason, Refusal, RefusedBy
from memqos.model.pod import Pod

__all__ = ["Denial", "StatusReason", "aggregate_error", "forbidden", "invalid"]


class StatusReason(StrEnum):
    """The reason of a failed request, spelled as in `Status.reason`: Forbidden (code 403) or Invalid (422)."""

    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A refused pod. message: the API server's; plugin: what refuses it; rule: one sentence; inputs: what decides."""

    reason_name: StatusReason
    message: str
    plugin: str
    rule: str
    inputs: tuple[Input, ...] = ()

    def refusal(self, pod: Pod) -> Refusal:
        """The refusal that a plan lists."""
        return Refusal(
            pod=pod.uid,
            name=f"{pod.namespace}/{pod.name}",
            reason_name=self.reason_name,
            message=self.message,
            reason=Reason(rule=self.rule, revision="", source=f"API server: {self.plugin}", inputs=self.inputs),
            by=RefusedBy.API_SERVER,
        )


def forbidden(pod: Pod, error: str, *, plugin: str, rule: str, inputs: tuple[Input, ...] = ()) -> Denial:
    """The error of an admission plugin (`admission.NewForbidden`)."""
    message = f'pods "{pod.name}" is forbidden: {error}'
    return Denial(reason_name=StatusReason.FORBIDDEN, message=message, plugin=plugin, rule=rule, inputs=inputs)


def invalid(pod: Pod, errors: Sequence[str], *, rule: str, inputs: tuple[Input, ...] = ()) -> Denial:
    """The error of validation (`errors.NewInvalid`); errors: "field: Invalid value: …", at least one."""
    return Denial(
        reason_name=StatusReason.INVALID,
        message=f'Pod "{pod.name}" is invalid: {aggregate_error(errors)}',
        plugin="validation of new pods",
        rule=rule,
        inputs=inputs,
    )


def aggregate_error(errors: Sequence[str]) -> str:
    """Several errors in one text, each once (apimachinery `errors.NewAggregate`)."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
