"""What the loopback Hub answers about collections: lists of repositories under a title."""

from __future__ import annotations

import json
import re
import secrets
import threading
from typing import Any

from calls import Answer, Call, json_answer
from repositories import now
from routes import router
from storage import RefusedError

_SHOWN_ITEMS = 4
_LOCK = threading.RLock()


def _key(slug: str) -> str:
    return f"collections/{slug}.json"


def _save(call: Call, collection: dict[str, Any]) -> None:
    collection["lastUpdated"] = now()
    call.hub.repositories.storage.write(_key(collection["slug"]), [json.dumps(collection).encode()])


def _is_hidden(call: Call, collection: dict[str, Any]) -> bool:
    owner = collection["owner"]["name"]
    return collection["private"] and not (call.user and call.user.belongs_to(owner))


def _all(call: Call) -> list[dict[str, Any]]:
    repositories = call.hub.repositories
    held = [json.loads(repositories.read(key)) for key in repositories.storage.keys("collections/")]
    return [collection for collection in held if not _is_hidden(call, collection)]


def _asked(call: Call) -> dict[str, Any]:
    try:
        collection = json.loads(
            call.hub.repositories.read(_key(f"{call.parts['owner']}/{call.parts['slug']}"))
        )
    except KeyError:
        collection = None
    if collection is None or _is_hidden(call, collection):
        raise RefusedError(404, "Collection not found")
    return collection


@router.route("GET", "/api/collections")
def list_collections(call: Call) -> Answer:
    owners = call.query.get("owner")
    return json_answer(
        [
            {**collection, "items": collection["items"][:_SHOWN_ITEMS]}
            for collection in _all(call)
            if not owners or collection["owner"]["name"] in owners
        ]
    )


@router.route("POST", "/api/collections")
def create_collection(call: Call) -> Answer:
    asked = call.json()
    owner, title = str(asked.get("namespace")), str(asked.get("title", ""))
    call.writer_of(owner)
    if not title or len(title) > 60:
        raise RefusedError(400, f"A title has 1 to 60 letters, found {title!r}")
    with _LOCK:
        for held in _all(call):
            if (held["owner"]["name"], held["title"]) == (owner, title):
                raise RefusedError(409, f"You have a collection {title}", body={"slug": held["slug"]})
        words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        collection = {
            "slug": f"{owner}/{words}-{secrets.token_hex(12)}",
            "title": title,
            "owner": {"name": owner},
            "items": [],
            "private": bool(asked.get("private")),
            "theme": "green",
            "upvotes": 0,
        }
        _save(call, collection)
    return json_answer({**collection, "position": 0})


@router.route("GET", "/api/collections/{owner}/{slug}")
def tell_collection(call: Call) -> Answer:
    return json_answer({**_asked(call), "position": 0})


@router.route("POST", "/api/collections/{owner}/{slug}/items")
def add_item(call: Call) -> Answer:
    call.writer_of(call.parts["owner"])
    item = call.json().get("item")
    if not isinstance(item, dict) or item.get("type") not in ("model", "dataset", "space"):
        raise RefusedError(400, f"An item is a model, a dataset or a space, found {item!r}")
    # One that the user may not see is the same as none.
    repository = call.named(f"{item['type']}s", str(item.get("id")))
    with _LOCK:
        collection = _asked(call)
        if any((each["type"], each["id"]) == (item["type"], repository.name) for each in collection["items"]):
            raise RefusedError(409, "This item is in the collection already")
        collection["items"].append(
            {
                "_id": secrets.token_hex(12),
                "id": repository.name,
                "type": item["type"],
                "position": len(collection["items"]),
            }
        )
        _save(call, collection)
    return json_answer({**collection, "position": 0})
