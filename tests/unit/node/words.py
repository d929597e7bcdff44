"""The amounts in a workload's commands."""

from memqos.model.quantity import Quantity


def commands_of(args):
    """The words of each of a workload's commands."""
    options = 2 * sum(word.startswith("--") for word in args)
    return [command.split() for command in " ".join(args[options:]).split(" , ") if command]


def asked(args):
    """Bytes of anonymous memory and of page cache that a workload's commands ask for."""
    commands = commands_of(args)
    anon = sum(amount(words[1]) for words in commands if words[0] == "anon")
    anon += sum(amount(words[2]) for words in commands if words[0] == "tmpfs")
    return anon, sum(amount(words[2]) for words in commands if words[0] == "file")


def amount(text):
    return int(Quantity.parse(text).value)
