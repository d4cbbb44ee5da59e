"""The network of actors: its counts, and its files."""

from __future__ import annotations

import networkx
import pyarrow as pa
from exploration_steps import RunStep
from exploration_tables import HOSTILE

from eventformers.exploration.network import NETWORK, NETWORK_FILES

EVENTS = {
    "subject_id": ["ada", "ada", "ada", "bo", "ada", "", "cy"],
    "object_id": ["bo", "bo", "bo", "ada", "ada", "bo", ""],
    "lemma": ["sue", "sue", "meet", "answer", "wash", "call", "leave"],
    "factuality": ["fact", "fact", "", "fact", "fact", "fact", "fact"],
}
ACTORS = {"actor_id": ["ada", "bo", "cy"], "name": [HOSTILE, "Bo\x0c \x00& Co", "Cy"], "kind": ["person"] * 3}


def written(folder, **columns) -> RunStep:
    folder.mkdir()
    tables = {"events.parquet": pa.table(EVENTS | columns), "actors.parquet": pa.table(ACTORS)}
    return RunStep(NETWORK, folder, tables, None)


def test_files_have_who_acts_on_whom(tmp_path):
    run = written(tmp_path / "one")
    readers = (networkx.read_gexf, networkx.read_graphml)
    for name, read in zip(NETWORK_FILES, readers, strict=True):
        network = read(run.staging / name)
        assert network.is_directed()
        # No one acts on themselves, and who acts on nobody is left out.
        assert set(network.edges) == {("ada", "bo"), ("bo", "ada")}
        assert network.edges["ada", "bo"]["weight"] == 3
        assert network.edges["ada", "bo"]["predicates"] == "sue, meet"
        assert network.nodes["ada"]["label"] == HOSTILE
        assert network.nodes["bo"]["label"] == "Bo & Co"
        assert {key: network.nodes["ada"][key] for key in ("kind", "acts", "is_acted_on")} == {
            "kind": "person",
            "acts": 3,
            "is_acted_on": 1,
        }
        again = written(tmp_path / f"again-{name}")
        assert (again.staging / name).read_bytes() == (run.staging / name).read_bytes()


def test_only_counted_events_are_in_it(tmp_path):
    run = written(tmp_path / "one", factuality=["reported"] * 3 + ["fact"] * 4)
    network = networkx.read_graphml(run.staging / NETWORK_FILES[1])
    assert set(network.edges) == {("bo", "ada")}
    empty = written(tmp_path / "two", factuality=["reported"] * 7)
    assert len(networkx.read_gexf(empty.staging / NETWORK_FILES[0])) == 0
