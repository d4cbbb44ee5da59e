# /// script
# requires-python = ">=3.11"
# dependencies = ["eventformers[demo]"]
# ///
"""Add the vectors of a column of events or texts to a dataset of the Hub."""

import argparse
from pathlib import Path

from datasets import Dataset, load_dataset

from eventformers import EventEncoder

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("dataset", help="id of the Hub, or a file: JSON lines, CSV or Parquet")
parser.add_argument("--column", default="text")
parser.add_argument("--split", default="train")
parser.add_argument("--model", help="folder or id of the Hub; default: the packaged all-MiniLM-L6-v2")
parser.add_argument("--repo-id", help="private dataset to push to; default: none")
parser.add_argument("-o", "--output", default="vectors.parquet")
arguments = parser.parse_args()

file = Path(arguments.dataset)
if file.is_file():
    kind = {".csv": "csv", ".parquet": "parquet"}.get(file.suffix, "json")
    rows = load_dataset(kind, data_files=str(file), split=arguments.split)
else:
    rows = load_dataset(arguments.dataset, split=arguments.split)
encoder = EventEncoder.from_pretrained(arguments.model)
vectors = encoder.encode(rows[arguments.column][:], normalize=True, show_progress=True)
embedded: Dataset = rows.add_column("embedding", list(vectors))
embedded.to_parquet(arguments.output)
print(f"{len(embedded)} rows with vectors of size {vectors.shape[1]}")
if arguments.repo_id:
    embedded.push_to_hub(arguments.repo_id, private=True)
