"""Speed of extracting events and chains, compared with a plain loop over `nlp.pipe`.

    python benchmarks/extract.py --texts ../shared/data/text/docs.jsonl.gz --pipeline en_core_web_sm

The other side only parses the same texts with the same pipeline, which is the lower bound. The ratio is the
cost of reading events and chains, of the filters and of writing the rows. The sides take turns, so other load
affects both; both run in one process, with one thread if OMP_NUM_THREADS=1 is set. On a machine with other
load, compare processor time.

Without `--pipeline`, the script takes the one that is installed.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Sequence

import spacy
from side_by_side import CLOCKS, CPU, describe_machine, take_turns

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    installed_pipeline,
)
from eventformers.extraction.texts import TextDocument, find_text_files, read_texts

TEXTS_AT_ONCE = 64


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse_arguments(arguments)
    documents = sample(options)
    pipeline = options.pipeline or installed_pipeline()
    extractor = EventExtractor(ExtractionSettings(pipeline, arguments=options.arguments))
    words = sum(len(document.text.split()) for document in documents)
    print(f"{describe_machine(CPU)}, spaCy {spacy.__version__}")
    print(f"pipeline {pipeline}: {', '.join(extractor.pipeline.pipe_names)}")
    print(f"{len(documents)} documents, {words:,} words")
    counts = ExtractionCounts()

    def plain() -> None:
        for _ in extractor.pipeline.pipe((document.text for document in documents), batch_size=TEXTS_AT_ONCE):
            pass

    def extract() -> None:
        counts.written.clear()
        counts.skipped.clear()
        extracted = list(extractor.extract(documents, counts))
        assert len(extracted) == counts.written["documents"]
        assert sum(len(one.chain_rows) for one in extracted) == counts.written["chains"]

    sides = {"nlp.pipe": plain, "extraction": extract}
    costs = take_turns(sides, options.rounds, reference="extraction")
    written = counts.written
    print(
        f"{written['events']:,} events ({words / max(written['events'], 1):.1f} words an event),"
        f" {written['chains']:,} chains"
    )
    for clock, kind in enumerate(CLOCKS):
        taken = {side: cost.seconds[clock] for side, cost in costs.items()}
        ratios = costs["nlp.pipe"].ratios[clock]
        rates = ", ".join(f"{side} {words / seconds:,.0f} words/s" for side, seconds in taken.items())
        print(
            f"{kind}: {rates}; {written['events'] / taken['extraction']:,.0f} events/s;"
            f" extraction / nlp.pipe: median {statistics.median(ratios):.3f}"
            f" ({min(ratios):.3f} to {max(ratios):.3f})"
        )


def sample(options: argparse.Namespace) -> list[TextDocument]:
    """Every n-th document, so that each kind of text has its share."""
    skipped = SkippedRows()
    documents = list(read_texts(find_text_files(options.texts, skipped), Counter(), skipped, ()))
    if not documents:
        raise SystemExit("no document with text")
    return documents[:: max(1, len(documents) // options.documents)]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which each side runs once")
    parser.add_argument("--texts", required=True, help="files or folders of text")
    parser.add_argument("--pipeline", help="name or folder of a spaCy pipeline")
    parser.add_argument("--documents", type=int, default=100, help="documents to take of the texts")
    parser.add_argument("--arguments", choices=["heads", "spans"], default="heads")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
