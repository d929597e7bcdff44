"""For the conftest.py of suites in tests: a runtime that fails to create the container of one request."""

FAILING_CREATION = '''
class FailingCreation:
    """error: makes what is raised for a container whose memory.high is 48 MiB."""

    def __init__(self, runtime, error):
        self.runtime, self.error = runtime, error

    def __getattr__(self, name):
        return getattr(self.runtime, name)

    def create(self, sandbox, spec, *, deadline):
        if spec.resources.unified == {"memory.high": "50331648"}:
            raise self.error()
        return self.runtime.create(sandbox, spec, deadline=deadline)
'''
