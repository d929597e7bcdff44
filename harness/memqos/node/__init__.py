"""The node under test: a machine, a runtime on it, the engine's plans, and the verbs of tests."""

from memqos.enactor.base import AdmittedPod
from memqos.node.behaviour.conditions import (
    Condition,
    after,
    both,
    counted,
    either,
    ended,
    exceeds,
    gathered,
    reaches,
    rises,
)
from memqos.node.behaviour.course import Course
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.pods.population import Population
from memqos.node.pods.resize import Resized

__all__ = [
    "AdmittedPod",
    "Condition",
    "Course",
    "NodeUnderTest",
    "Population",
    "Resized",
    "after",
    "both",
    "counted",
    "either",
    "ended",
    "exceeds",
    "gathered",
    "reaches",
    "rises",
]
