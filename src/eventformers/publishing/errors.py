"""Errors of the Hub and of the network, each as one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from eventformers.datasets_scripts.loading import TIMEOUT_VARIABLE, hub_timeout, limit_requests
from eventformers.errors import EventformersError, causes, first_line

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN to a token with write permission"
RERUN = "run the command again: files that are already there are not sent again"


@contextmanager
def hub_faults(place: str) -> Iterator[None]:
    """Convert errors of the Hub or the network to one line.

    Args:
        place: the affected item, such as the id of a repository.

    Raises:
        EventformersError: replaces an error of the client.
    """
    limit_requests()
    try:
        yield
    except EventformersError:
        raise
    except HFValidationError as error:
        raise EventformersError(f"{place}: {_told(error)}") from error
    except LocalTokenNotFoundError as error:
        raise EventformersError(f"{place}: not logged in; {LOG_IN}") from error
    except OfflineModeIsEnabled as error:
        raise EventformersError(
            f"{place}: HF_HUB_OFFLINE is set, so the Hub is not reachable; unset it and run the command again"
        ) from error
    except HfHubHTTPError as error:
        raise EventformersError(f"{place}: {_refusal(error)}") from error
    except Exception as error:
        # The library that sends large files has no error classes of its own.
        if not is_of_network(error) and not isinstance(error, RuntimeError):
            raise
        if _is_timeout(error):
            raise EventformersError(
                f"{place}: the Hub did not answer within {hub_timeout():g} s ({type(error).__name__}); "
                f"{RERUN}, or set {TIMEOUT_VARIABLE} to more seconds"
            ) from error
        raise EventformersError(
            f"{place}: the connection to the Hub was lost ({type(error).__name__}: {_told(error)}); {RERUN}"
        ) from error


def _refusal(error: HfHubHTTPError) -> str:
    """Explain an error response, and what to do about it."""
    status = error.response.status_code
    said = _told(error)
    if isinstance(error, RevisionNotFoundError):
        return f"the branch or commit does not exist ({said})"
    if isinstance(error, RepositoryNotFoundError):
        return f"the repository does not exist, or this token has no access to it; {LOG_IN}"
    if status == 401:
        return f"the Hub does not accept the token; {LOG_IN}"
    if status == 403:
        return f"this token has no write permission there ({said}); {LOG_IN}, or choose another name"
    if status == 409:
        return f"the Hub refused because of a conflict ({said}); when nobody else writes there, {RERUN}"
    if status == 412:
        return "another commit was made there at the same time, and nothing was pushed; run the command again"
    if status == 413:
        return f"the Hub does not accept that amount of data ({said})"
    if status == 429:
        return f"the Hub asks for fewer requests; wait, then {RERUN}"
    if status >= 500:
        return f"the Hub failed with status {status} ({said}); {RERUN}"
    return f"the Hub refused with status {status}: {said}"


def _told(error: BaseException) -> str:
    """The Hub's message, or the first line of the error's."""
    told = getattr(error, "server_message", None)
    return str(told).splitlines()[0].rstrip(".: ") if told else first_line(error).rstrip(".: ")


def _is_timeout(error: BaseException) -> bool:
    return any(
        isinstance(cause, TimeoutError) or type(cause).__name__.endswith("Timeout") for cause in causes(error)
    )


def is_of_network(error: BaseException) -> bool:
    """True if an error, or one of its causes, comes from the connection.

    The errors are recognised by their module, because the Hub's client has changed its HTTP library before.
    """
    for cause in causes(error):
        module = type(cause).__module__.split(".")[0]
        if module.startswith("httpx") or module == "httpcore":
            return True
        if isinstance(cause, (ConnectionError, TimeoutError)):
            return True
    return False
