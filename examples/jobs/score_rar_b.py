# /// script
# requires-python = ">=3.11"
# dependencies = ["eventformers[mteb]"]
# ///
"""Score a model on the commonsense tasks of MTEB's RAR-b, which retrieve the answer to a question."""

import argparse
from typing import Any, cast

import eventformers  # noqa: F401  It registers our models.

TASKS = ("ARCChallenge", "AlphaNLI", "HellaSwag", "PIQA", "SIQA", "WinoGrande")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="folder or id of the Hub: MICO, or any that sentence-transformers loads")
parser.add_argument("--task", action="append", help=f"default: {', '.join(TASKS)}. Repeatable.")
parser.add_argument("--device")
arguments = parser.parse_args()
try:
    import mteb
    from sentence_transformers import SentenceTransformer
except ModuleNotFoundError as error:
    parser.error(f'{error}; run `pip install "eventformers[mteb]"`')

model = SentenceTransformer(arguments.model, device=arguments.device)
tasks = mteb.get_tasks(tasks=arguments.task or list(TASKS))
for result in mteb.evaluate(cast(Any, model), tasks, cache=None):
    print(f"{result.task_name}\t{100 * result.get_score():.2f}")
