"""Terms of use of known corpora, so that licences travel with the rows."""

from __future__ import annotations

from collections.abc import Iterable

from eventformers.files import packaged_yaml

UNSPECIFIED = "unspecified"
"""The licence of a row without a stated licence."""

_LICENSES = packaged_yaml(__file__, "licenses.yaml")
SOURCE_LICENSES: dict[str, str] = _LICENSES["sources"]
"""Licence by the `source` of a document; a licence stated in the raw row takes precedence."""

OPEN_LICENSES: frozenset[str] = frozenset(_LICENSES["open"])
"""Licences under which anyone may publish the rows and the models trained on them. All others, `unspecified`
included, need the user's decision."""

_HUB_IDENTIFIERS: dict[str, str] = {
    **{name: name.lower() for name in OPEN_LICENSES - {"public-domain", "public-domain-US", "unrestricted"}},
    UNSPECIFIED: "unknown",
}


def license_of_source(source: str, stated: str | None = None) -> str:
    """The licence of a document: the one that its row states, else the known one of its source.

    Of a stated name, case is ignored, and blanks count as hyphens: `CC BY 2.5` becomes `CC-BY-2.5`. An
    unknown name is unchanged.
    """
    if not stated:
        return SOURCE_LICENSES.get(source, UNSPECIFIED)
    plain = " ".join(stated.split())
    known = {name.lower(): name for name in OPEN_LICENSES}
    return _LICENSES["other_names"].get(plain.lower()) or known.get(plain.lower().replace(" ", "-"), plain)


def is_open(license_name: str) -> bool:
    """True if rows under this licence may be published without a decision of the user."""
    return license_name in OPEN_LICENSES


def hub_licenses(license_names: Iterable[str]) -> list[str]:
    """Licence identifiers of the Hub's dataset cards, sorted; `other` for licences that it does not know."""
    return sorted({_HUB_IDENTIFIERS.get(name, "other") for name in license_names})
