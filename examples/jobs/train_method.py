# /// script
# requires-python = ">=3.11"
# dependencies = ["eventformers[demo]"]
# ///
"""Train a method, and push the model with its card and scores."""

import argparse

import eventformers

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("method", help="such as swcc")
parser.add_argument("--data", help="built dataset of the Hub, or a folder; default: the bundled samples")
parser.add_argument("--recipe")
parser.add_argument("--encoder")
parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
parser.add_argument("--repo-id", help="private model to push to; default: none")
parser.add_argument("-o", "--output", default="model")
arguments = parser.parse_args()

finished = eventformers.train(
    arguments.method,
    arguments.output,
    recipe=arguments.recipe,
    data=arguments.data,
    encoder=arguments.encoder,
    settings=arguments.settings,
)
for result in finished.results:
    print(result.task, result.scores)
if arguments.repo_id:
    eventformers.push(finished.folder, arguments.repo_id, private=True)
