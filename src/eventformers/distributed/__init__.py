"""Steps of datatrove pipelines, for one machine, Slurm or Ray. Needs the extra `distributed`.

A task of datatrove is a shard: it reads its share of the files, and a finished task is not run again.
"""

from importlib.util import find_spec

from eventformers.errors import EventformersError

if find_spec("datatrove") is None:
    raise EventformersError(
        "steps of a datatrove pipeline need datatrove; install it with"
        " `pip install 'eventformers[distributed]'`"
    )
