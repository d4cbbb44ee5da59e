"""Steps of datatrove pipelines, for one machine, Slurm or Ray. Needs the extra `distributed`.

A task of datatrove is a shard: it reads its share of the files, and a finished task is not run again.
"""
