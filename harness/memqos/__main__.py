"""`python -m memqos`, the same as the `memqos` command."""

import sys

__all__ = ["console"]


def console() -> None:
    """Run the command line, and take an interrupt that comes while it is imported."""
    try:
        from memqos.cli.main import main  # noqa: PLC0415 - an interrupt may come meanwhile
    except KeyboardInterrupt:
        # The command line's own way of taking an interrupt is not there yet.
        sys.stderr.write("\nmemqos: interrupted.\n")
        sys.exit(2)
    main()


if __name__ == "__main__":
    console()
