"""Dataset builders, which convert raw files in their published formats to Parquet."""

from eventformers.datasets_scripts.base import EventDatasetBuilder
from eventformers.datasets_scripts.building import BUILDERS, build_dataset, build_reports, list_datasets
from eventformers.datasets_scripts.commonsense_graphs import CommonsenseGraphs
from eventformers.datasets_scripts.commonsense_qa import CommonsenseQA
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.event_coreference import EventCoreference
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies
from eventformers.datasets_scripts.event_similarity import EventSimilarity
from eventformers.datasets_scripts.event_types import EventTypes
from eventformers.datasets_scripts.events import EVENT_FEATURE, EVENT_ORDERS, Event, event_text
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.loading import built_report, load_built

__all__ = [
    "BUILDERS",
    "EVENT_FEATURE",
    "EVENT_ORDERS",
    "CommonsenseGraphs",
    "CommonsenseQA",
    "Event",
    "EventChains",
    "EventCoreference",
    "EventDatasetBuilder",
    "EventHierarchies",
    "EventSimilarity",
    "EventTypes",
    "build_dataset",
    "build_reports",
    "built_report",
    "dataset_fingerprint",
    "event_text",
    "list_datasets",
    "load_built",
]
