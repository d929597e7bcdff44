"""What tests and suites import beside `memqos`: the fixtures' types, conditions to wait for, and work for pods to do.

Types are for annotations; the values come from the plugin's fixtures, and in a test of a suite from `fake_node`.
"""

from memqos.catalog.kubelets import KubeletCase
from memqos.enactor.base import AdmittedPod, MemoryVolume
from memqos.node.behaviour.conditions import (
    Combined,
    Condition,
    Sample,
    after,
    both,
    counted,
    either,
    ended,
    exceeds,
    faults,
    gathered,
    reaches,
    rises,
    stalls,
    thread_stalls,
)
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Preconditions
from memqos.node.behaviour.watch import Watch
from memqos.node.behaviour.watched_container import ContainerCondition, WatchedContainer
from memqos.node.fake import fake_node
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.pods.population import Population
from memqos.node.pods.resize import Moment, Resized
from memqos.plugin.collection.catalogue import Catalogue
from memqos.plugin.fixtures import Evidence
from memqos.runtime.base import ContainerHandle, ContainerStatus, Mount, SandboxHandle
from memqos.workload.command import Anon, Command, Exit, File, Free, Hold, Read, Report, Tmpfs, Touch, arguments
from memqos.workload.report import ReportLine

__all__ = [
    "AdmittedPod",
    "Anon",
    "Catalogue",
    "Combined",
    "Command",
    "Condition",
    "ContainerCondition",
    "ContainerHandle",
    "ContainerStatus",
    "Course",
    "Evidence",
    "Exit",
    "File",
    "Free",
    "Hold",
    "KubeletCase",
    "MemoryVolume",
    "Moment",
    "Mount",
    "NodeUnderTest",
    "Population",
    "Preconditions",
    "Read",
    "Report",
    "ReportLine",
    "Resized",
    "Sample",
    "SandboxHandle",
    "Tmpfs",
    "Touch",
    "Watch",
    "WatchedContainer",
    "after",
    "arguments",
    "both",
    "counted",
    "either",
    "ended",
    "exceeds",
    "fake_node",
    "faults",
    "gathered",
    "reaches",
    "rises",
    "stalls",
    "thread_stalls",
]
