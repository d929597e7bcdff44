"""Progress that is kept, for tests of what tells it."""


class Notes:
    """Someone who is told of work, and keeps it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []

    def start(self, name: str) -> None:
        self.steps.append(name)

    def done(self, name: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)
