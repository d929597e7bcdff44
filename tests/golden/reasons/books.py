"""The golden texts beside this file. To write them anew, and then to read the difference:

python -m tests.golden.reasons.books
"""

from pathlib import Path

from tests.golden.reasons import documents, plans, refusals, resizes, tables, translations, zones

FOLDER = Path(__file__).parent
BOOKS = {
    "reasons.txt": plans.book,
    "zones.txt": zones.book,
    "refusals.txt": refusals.book,
    "translations.txt": translations.book,
    "resizes.txt": resizes.book,
    "tables.txt": tables.book,
    "documents.txt": documents.book,
}

if __name__ == "__main__":
    for name, book in BOOKS.items():
        (FOLDER / name).write_text("\n\n".join(book()) + "\n")
