"""Subjects: their names for readers, and equality."""

import pytest

from memqos.engine.answer.finding import Subject
from memqos.engine.plan import Level


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject(level=Level.QOS, name="kubepods-burstable.slice"), "kubepods-burstable.slice"),
        (Subject.of_machine("the swap devices"), "the swap devices"),
        (Subject.of_pod("default", "web"), "pod default/web"),
        (Subject.of_container("app"), "container app"),
        (Subject.of_container("app", "default/web"), "container app of pod default/web"),
        (Subject.of_container("app", "default/web").scope(), "scope of container app of pod default/web"),
        (Subject.of_pod("default", "web").at("after step 2"), "pod default/web, after step 2"),
    ],
)
def test_the_name_of_a_subject(subject, text):
    assert str(subject) == text


def test_moments_and_parts_distinguish_subjects():
    app = Subject.of_container("app", "default/web")
    assert app == Subject.of_container("app", "default/web")
    assert len({app, app.scope(), app.at("after step 2"), Subject.of_container("app")}) == 4
