"""pytest's undocumented parts: found in this one, and done without in a doctored one."""

import contextlib
import io
from types import SimpleNamespace

import pytest

from memqos.plugin import pytest_internals
from memqos.plugin.pytest_internals import SETUP_STATE


class Writer:
    def __init__(self):
        self.file = io.StringIO()

    def write(self, text, *, flush=False):
        self.file.write(text)
        if flush:
            self.flush()

    def flush(self):
        pass


class Reporter:
    def __init__(self, config):
        self.config, self.lines = config, []

    def write_line(self, text):
        self.lines.append(text)


def config_with(plugins, **more):
    return SimpleNamespace(
        pluginmanager=SimpleNamespace(get_plugin=plugins.get, has_plugin=plugins.__contains__), **more
    )


@pytest.fixture
def writer():
    return Writer()


@pytest.fixture
def config(writer):
    return config_with({"terminalreporter": object()}, get_terminal_writer=lambda: writer)


@pytest.fixture
def session(config):
    return SimpleNamespace(config=config, **{SETUP_STATE: SimpleNamespace(teardown_exact=lambda _: None)})


def test_this_pytest_lacks_nothing(request):
    assert pytest_internals.lacking(request.session) == []


def test_the_versions_begin_with_the_oldest_supported_one():
    assert pytest_internals.VERSIONS.startswith("8.0 to ")


def test_a_quiet_reporter_prints_again_afterwards(config, writer):
    writer.write("before ")
    speak = pytest_internals.quiet(config)
    writer.write("while ", flush=True)
    speak()
    writer.write("after")
    assert writer.file.getvalue() == "before after"


class Sealed:
    """A writer whose methods cannot be replaced."""

    __slots__ = ()
    write = flush = lambda *_: None


@pytest.mark.parametrize(
    "doctored",
    [
        config_with({"terminalreporter": object()}),
        config_with({"terminalreporter": object()}, get_terminal_writer=object),
        config_with({"terminalreporter": object()}, get_terminal_writer=Sealed),
    ],
    ids=["no way to its writer", "another writer", "a sealed writer"],
)
def test_a_reporter_that_cannot_be_silenced_is_reported(doctored, session):
    assert pytest_internals.quiet(doctored) is None
    session.config = doctored
    [told] = pytest_internals.lacking(session)
    assert told.startswith(f"pytest {pytest.__version__} lacks Config.get_terminal_writer, which pytest 8.0 to ")
    assert told.endswith(" has: pytest's own reporter shows this run")


def test_a_report_is_printed_as_pytest_does(config, writer):
    report = SimpleNamespace(toterminal=lambda out: out.write("colours"), longreprtext="plain")
    pytest_internals.show_report(Reporter(config), report)
    assert writer.file.getvalue() == "colours"


def test_without_a_reporter_nothing_is_lacking(session):
    session.config = config_with({})
    assert pytest_internals.quiet(session.config) is None
    assert pytest_internals.lacking(session) == []


@pytest.mark.parametrize("lacks", ["writer", "method"])
def test_a_report_is_printed_plainly_where_pytest_has_no_other_way(config, lacks):
    report = SimpleNamespace(longreprtext="plain")
    if lacks == "writer":
        report.toterminal = lambda _: pytest.fail("it was called")
        config = config_with({})
    reporter = Reporter(config)
    pytest_internals.show_report(reporter, report)
    assert reporter.lines == ["plain"]


def test_everything_but_the_session_is_torn_down(session):
    torn = []
    setattr(session, SETUP_STATE, SimpleNamespace(teardown_exact=torn.append))
    assert pytest_internals.tear_down(session) is True
    assert torn == [session]


@pytest.mark.parametrize(
    "state",
    [None, SimpleNamespace(), SimpleNamespace(teardown_exact=None), SimpleNamespace(teardown_exact=lambda _, __: None)],
    ids=["no state", "no method", "no function", "another signature"],
)
def test_a_session_that_cannot_be_torn_down_is_reported(session, state):
    setattr(session, SETUP_STATE, state)
    assert pytest_internals.tear_down(session) is False
    [told] = pytest_internals.lacking(session)
    assert f"lacks Session.{SETUP_STATE}.teardown_exact" in told
    assert told.endswith("after a machine is lost, the remaining tests of its module end in machinery")


def test_a_fixture_is_forgotten():
    class Fixture:
        cached_result = None
        finished = None

        def finish(self, request):
            self.finished = (request, self.cached_result is not None)

    fixture = Fixture()
    pytest_internals.forget(fixture, "request", ValueError())
    assert fixture.finished == ("request", True)


def test_a_fixture_that_cannot_be_finished_is_left(session, monkeypatch):
    pytest_internals.forget(SimpleNamespace(), "request", ValueError())
    monkeypatch.delattr(pytest.FixtureDef, "finish")
    [told] = pytest_internals.lacking(session)
    assert "lacks FixtureDef.finish" in told


@pytest.mark.parametrize("plugins", [{}, {"capturemanager": object()}], ids=["no capture", "another capture"])
def test_without_a_known_way_past_the_capture_it_stays(plugins):
    with pytest_internals.uncaptured(config_with(plugins)):
        pass


def test_capture_is_suspended_meanwhile():
    seen = []

    @contextlib.contextmanager
    def disabled():
        seen.append("off")
        yield
        seen.append("on")

    plugins = {"capturemanager": SimpleNamespace(global_and_fixture_disabled=disabled)}
    with pytest_internals.uncaptured(config_with(plugins)):
        seen.append("said")
    assert seen == ["off", "said", "on"]
