"""A default timeout for requests to the Hub that set none."""

from __future__ import annotations

import math
import os
from typing import Any

from eventformers.errors import EventformersError, shown

TIMEOUT_VARIABLE = "EVENTFORMERS_HUB_TIMEOUT"
DEFAULT_TIMEOUT = 60.0
"""Seconds that a request waits if the environment does not set `TIMEOUT_VARIABLE`."""


def hub_timeout() -> float:
    """Return the timeout of a request in seconds: to connect, to receive the next bytes, or to send.

    Raises:
        EventformersError: the environment variable is not a positive number.
    """
    value = os.environ.get(TIMEOUT_VARIABLE, str(DEFAULT_TIMEOUT))
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise EventformersError(
            f"{TIMEOUT_VARIABLE}: found {shown(value)}; accepted: a positive number of seconds"
        )
    return seconds


def limit_requests() -> None:
    """Set a timeout for all requests of this process's Hub client.

    Raises:
        EventformersError: the environment variable is not a positive number.
    """
    from huggingface_hub import get_session

    hub_timeout()
    client = get_session()
    if _limit not in client.event_hooks["request"]:
        client.event_hooks = {**client.event_hooks, "request": [*client.event_hooks["request"], _limit]}


def _limit(request: Any) -> None:
    # A timeout of the client itself has no effect: most calls of the Hub's API pass one explicitly, as None.
    own = request.extensions.get("timeout") or {}
    seconds = hub_timeout()
    request.extensions["timeout"] = {
        part: seconds if own.get(part) is None else own[part] for part in ("connect", "read", "write", "pool")
    }
