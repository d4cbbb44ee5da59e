"""From raw texts to tables and a page; here are the names of its files besides the tables."""

STATE_FOLDER = ".explore"
"""Folder inside an exploration with the state of each step."""

REPORT_FILE = "report.json"
"""The report of all steps but the page, which shows it."""

PAGE_FILE = "index.html"

WORKING_FOLDER = "next"
"""Folder inside `STATE_FOLDER` in which steps run, until all are done."""
