"""Readers of raw files, whose errors name file and line: lines and JSON, fields, tables, markup."""
