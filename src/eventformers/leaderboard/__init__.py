"""Leaderboards: sources of scores, their ranking, and the page that shows them."""
