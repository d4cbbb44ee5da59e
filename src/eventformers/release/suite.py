"""`release`: everything that this suite can build, train and publish, in one resumable call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.utils import validate_repo_id

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError
from eventformers.evaluation.session import Session
from eventformers.files import check_own_folder, output_folder, staged_folder
from eventformers.hub import Push, push
from eventformers.leaderboard.board import build_leaderboard
from eventformers.leaderboard.page import leaderboard_page, to_json
from eventformers.leaderboard.sources import read_folder as read_results
from eventformers.loading.encoders import PACKAGED_ENCODER
from eventformers.loading.pretrained import build
from eventformers.publishing.folders import (
    LEADERBOARD_FILE,
    PAGE_FILE,
    LocalRepository,
    metric_folders,
    read_folder,
)
from eventformers.publishing.plan import LOG_IN, hub_faults
from eventformers.release.packaging import package
from eventformers.release.parts import (
    STATE_FOLDER,
    PlannedRun,
    ReleasedDataset,
    Training,
    build_datasets,
    data_settings,
    plan_runs,
    reason_to_leave_out,
    run_record,
    train_run,
)

DATASETS, MODELS, PRETRAINED, LEADERBOARD = "datasets", "models", "pretrained", "leaderboard"
SAMPLE_RECIPE = "demo"
"""The recipe for the bundled samples, which are too small for the default recipes."""


@dataclass(frozen=True)
class ReleaseItem:
    """A repository of a release, or one that is left out.

    Attributes:
        repo_id: `owner/name`.
        kind: `dataset`, `model`, `metric` or `leaderboard`.
        licenses: licences of its rows, or of the rows that it is trained on.
        num_bytes: size of its files; for a model that is not trained yet, the recipe's recorded size; None if
            unknown.
        hours: training time; for a model that is not trained yet, the recipe's recorded time; None if
            unknown, and for other kinds.
        is_done: False for what is still to be trained or written.
        left_out: why it is not published; None if it is.
    """

    repo_id: str
    kind: str
    licenses: tuple[str, ...]
    num_bytes: int | None
    hours: float | None = None
    is_done: bool = True
    left_out: str | None = None


@dataclass(frozen=True)
class Release:
    """The result of a release, or of a dry run.

    Attributes:
        items: its repositories, and those that are left out.
        push: the result of the push; None after a dry run.
    """

    folder: Path
    items: tuple[ReleaseItem, ...]
    push: Push | None


@takes_malformed
def release(
    owner: str,
    output: str | Path,
    *,
    data: str | Path | None = None,
    recipe: str | None = None,
    encoder: str | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    public: bool = False,
    accept_licenses: bool = False,
    collection: str | None = None,
    pretrained: str | Path | None = None,
    dry_run: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
    tell: Callable[[str], object] = lambda step: None,
    malformed: str | None = None,
) -> Release:
    """Build all datasets, train and score a model of each method on them, and publish everything.

    Repositories are published together with our metrics, a leaderboard of the models as a static Space, and a
    collection. Nothing is sent before everything is built, trained and loads from its folder; nothing is
    published before everything loads back from the Hub. Finished steps are reused: a second call with the
    same options continues an interrupted release.

    Args:
        owner: the user or organization on the Hub.
        output: the folder of the release; gets `datasets/`, `models/` and `leaderboard/`.
        data: folder with a subfolder of raw files for each dataset, such as `event_chains/`; None uses the
            bundled samples.
        recipe: a recipe that every method has; None uses the default recipe of each method, or `demo` for the
            samples.
        encoder: Hub id or folder of a pretrained encoder; None uses the packaged all-MiniLM-L6-v2.
        settings: overrides of all recipes, as `key=value`.
        seed: seed of all runs; None uses the recipes'.
        device: `cpu` or `cuda`; None uses an accelerator if there is one.
        dtype: `bfloat16` or `float16` for mixed precision; None for float32.
        public: make new repositories public.
        accept_licenses: also use and publish rows whose licences are not open.
        collection: title of the owner's collection; None uses `Events of OWNER`.
        pretrained: folder to write each model to in the form in which models come with the package; what it
            builds is published as `OWNER/METHOD`, too. None writes none.
        dry_run: build the datasets, and return what would be trained and published, without doing it.
        endpoint: the Hub; None uses the client's.
        token: the token; None uses that of the login.
        tell: called with the description of each step of the push as it begins.
        malformed: see `induce`.

    Returns:
        The repositories, and the result of the push.

    Raises:
        EventformersError: an argument is invalid, the data has no files for any dataset, nothing may be
            published, or an error of `train` or `push`.
    """
    try:
        validate_repo_id(owner)
    except ValueError as error:
        raise EventformersError(f"OWNER: {error}") from error
    if "/" in owner:
        raise EventformersError(f"OWNER: received {owner}; accepted: a user name or an organization")
    chosen = recipe or (SAMPLE_RECIPE if data is None else None)
    training = Training(chosen, tuple(settings), encoder, seed, device, dtype)
    runs = plan_runs(training)
    folder = Path(output)
    check_own_folder(folder, STATE_FOLDER, "release")
    api = HfApi(endpoint=endpoint, token=token or get_token(), library_name="eventformers")
    if not dry_run:
        # Check the token before hours of work.
        if api.token is None:
            raise EventformersError(f"not logged in; {LOG_IN}")
        with hub_faults("the Hub"):
            api.whoami()
    with output_folder(folder), Session() as session:
        for name in (STATE_FOLDER, DATASETS, MODELS):
            (folder / name).mkdir(exist_ok=True)
        datasets = build_datasets(folder / DATASETS, data, data_settings(runs), accept_licenses)
        left_out = {
            run.name: reason
            for run in runs
            if (reason := reason_to_leave_out(run, datasets, accept_licenses)) is not None
        }
        kept = [run for run in runs if run.name not in left_out]
        if not kept and all(dataset.closed for dataset in datasets.values()):
            reasons = dict.fromkeys(filter(None, (dataset.closed for dataset in datasets.values())))
            raise EventformersError(
                f"nothing may be published: {'; '.join(reasons)}; find out whether you may publish that, and "
                "pass --accept-licenses"
            )

        def items() -> tuple[ReleaseItem, ...]:
            packaged = [] if pretrained is None else kept
            return tuple(_items(owner, folder, datasets, runs, left_out, training, packaged))

        if dry_run:
            return Release(folder, items(), None)
        for run in kept:
            train_run(folder, folder / MODELS / run.name, run, training, datasets, session)
        models = [folder / MODELS / run.name for run in kept]
        built = [] if pretrained is None else [_package(folder, run, pretrained, session) for run in kept]
        board = _write_leaderboard(folder / LEADERBOARD, models, f"{api.endpoint}/{owner}")
        done = push(
            [
                *(dataset.local.folder for dataset in datasets.values() if not dataset.closed),
                *models,
                *built,
                *board,
                *metric_folders(),
            ],
            owner,
            private=not public,
            collection=collection or f"Events of {owner}",
            accept_licenses=accept_licenses,
            endpoint=endpoint,
            token=token,
            tell=tell,
        )
        return Release(folder, items(), done)


def _package(folder: Path, run: PlannedRun, output: str | Path, session: Session) -> Path:
    """Write a model in the form of the package, and build it for the Hub."""
    built = folder / PRETRAINED / run.method.name
    # A model that follows another one reranks what that one finds.
    retriever = folder / PRETRAINED / run.follows.method.name if run.follows else None
    source = package(folder / MODELS / run.name, output, retriever=retriever, session=session)
    with staged_folder(built, replaced=("[!.]*",)) as staging:
        build(source, staging, base_model=PACKAGED_ENCODER)
    return built


def _write_leaderboard(folder: Path, models: Iterable[Path], address: str) -> list[Path]:
    """Write the page of the models' scores, and the same as JSON; return the folder, or nothing without
    scores."""
    measured = [
        replace(one, card=f"{address}/{model.name}")
        for model in models
        if (model / "results").is_dir()
        for one in read_results(model)
    ]
    if not measured:
        return []
    board = build_leaderboard(measured)
    with staged_folder(folder) as staging:
        (staging / PAGE_FILE).write_text(leaderboard_page(board), encoding="utf-8")
        (staging / LEADERBOARD_FILE).write_text(to_json(board), encoding="utf-8")
    return [folder]


def _items(
    owner: str,
    folder: Path,
    datasets: Mapping[str, ReleasedDataset],
    runs: Sequence[PlannedRun],
    left_out: Mapping[str, str],
    training: Training,
    packaged: Iterable[PlannedRun],
) -> Iterable[ReleaseItem]:
    for name, dataset in datasets.items():
        licenses = tuple(dataset.licenses(dataset.reports))
        yield ReleaseItem(
            f"{owner}/{name}", "dataset", licenses, _size(dataset.local), left_out=dataset.closed
        )
    for run in runs:
        yield _model_item(owner, folder, datasets, run, left_out.get(run.name), training)
    for run in packaged:
        item = _model_item(owner, folder, datasets, run, None, training)
        built = folder / PRETRAINED / run.method.name
        size = _size(read_folder(built)) if built.is_dir() else None
        repo_id = f"{owner}/{run.method.name}"
        yield replace(item, repo_id=repo_id, num_bytes=size, hours=0.0, is_done=size is not None)
    for name in metric_folders():
        yield ReleaseItem(f"{owner}/{name}", "metric", ("Apache-2.0",), _size(read_folder(name)))
    board = folder / LEADERBOARD
    of_board = _size(read_folder(board)) if (board / LEADERBOARD_FILE).is_file() else None
    yield ReleaseItem(f"{owner}/{LEADERBOARD}", "leaderboard", (), of_board, is_done=of_board is not None)


def _model_item(
    owner: str,
    folder: Path,
    datasets: Mapping[str, ReleasedDataset],
    run: PlannedRun,
    left_out: str | None,
    training: Training,
) -> ReleaseItem:
    repo_id = f"{owner}/{run.name}"
    if left_out is not None:
        return ReleaseItem(repo_id, "model", (), None, is_done=False, left_out=left_out)
    read = run.read_configs().items()
    licenses = {name for builder, configs in read for name in datasets[builder].licenses(configs)}
    record = run_record(folder, run, training, datasets)
    if record is not None and "hours" in record:
        trained = _size(read_folder(folder / MODELS / run.name))
        return ReleaseItem(repo_id, "model", tuple(sorted(licenses)), trained, record["hours"])
    # With another encoder or other settings, the recorded run says little.
    recorded = {} if training.encoder or training.settings else run.recipe.recorded
    size = round(recorded["megabytes"] * 1e6) if "megabytes" in recorded else None
    return ReleaseItem(repo_id, "model", tuple(sorted(licenses)), size, recorded.get("hours"), is_done=False)


def _size(local: LocalRepository) -> int:
    return sum(path.stat().st_size for path in local.files.values())
