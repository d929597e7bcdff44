"""The golden texts in this folder. To write them again, and then review the difference:

python -m tests.golden.reasons.books
"""

from collections.abc import Iterator
from pathlib import Path

from tests.golden.reasons import documents, plans, refusals, resizes, tables, translations, zones
from tests.golden.reasons.pages import page

FOLDER = Path(__file__).parent
BOOKS = {
    "reasons.txt": plans.book,
    "zones.txt": zones.book,
    "refusals.txt": refusals.book,
    "translations.txt": translations.book,
    "resizes.txt": resizes.book,
    "tables-trees.txt": tables.trees,
    "tables-languages.txt": tables.languages,
    "tables-changes.txt": tables.changes,
    "tables-judged.txt": tables.judged,
    "documents-plans.txt": documents.plans,
    "documents-languages.txt": documents.languages,
    "documents-answers.txt": documents.answers,
    "documents-resizes.txt": documents.resized,
}


def paragraphs(name: str) -> Iterator[str]:
    """The current paragraphs of a book, laid out as in its file."""
    for text in BOOKS[name]():
        yield from page(text).split("\n\n")


if __name__ == "__main__":
    for name in BOOKS:
        (FOLDER / name).write_text("\n\n".join(paragraphs(name)) + "\n")
