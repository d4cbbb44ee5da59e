# /// script
# requires-python = ">=3.11"
# dependencies = ["eventformers[explore]"]
# ///
"""Explore the texts of a dataset of the Hub, and push page and tables as a Space."""

import argparse

import eventformers

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("dataset", help="id of the Hub, or a file or folder of texts")
parser.add_argument("--text-column", help="column of the text; default: text")
parser.add_argument("--space", metavar="OWNER/NAME", help="private Space to push to; default: none")
parser.add_argument("-o", "--output", default="exploration")
arguments = parser.parse_args()

found = eventformers.explore(arguments.dataset, arguments.output, text_column=arguments.text_column)
print(found.counts)
if arguments.space:
    eventformers.push(found.folder, arguments.space, private=True, accept_licenses=True)
