"""Terms of use of known corpora, so that licences travel with the rows."""

from __future__ import annotations

from collections.abc import Iterable

UNSPECIFIED = "unspecified"
"""The licence of a row without a stated licence."""

SOURCE_LICENSES: dict[str, str] = {
    "abc": UNSPECIFIED,
    "ace2005": "LDC-user-agreement",
    "bbc": UNSPECIFIED,
    "brown": "research-only",
    "cmcnc_dev": "Apache-2.0",
    "cmcnc_test": "Apache-2.0",
    "current_events": "CC-BY-SA-4.0",
    # Its news texts. The CC BY 3.0 of its owners is that of the annotation, which `event_coreference` has.
    "ecbplus": "research-only",
    "fairytaleqa": "Apache-2.0",
    "fewevent": UNSPECIFIED,
    "fewrel": "MIT",
    "fewrel_cfrl": "MIT",
    "geneva": "CC-BY-3.0",
    "gum": "CC-partly-NC",
    "gutenberg": "public-domain-US",
    "m2e2": UNSPECIFIED,
    "masc": "unrestricted",
    "mcnc_dev": "Apache-2.0",
    "mcnc_test": "Apache-2.0",
    "mctest": UNSPECIFIED,
    "rebel": "CC-BY-NC-SA-4.0",
    "reuters21578": "research-only",
    "state_union": "public-domain",
    "treebank": UNSPECIFIED,
    "wikidata": "CC0-1.0",
    "wikidata_real": "CC-partly-NC",
    "wikinews": "CC-BY-2.5",
    "wikipedia": "CC-BY-SA-4.0",
    "xlel_wd": "CC-BY-4.0",
}
"""Licence by the `source` of a document; a licence stated in the raw row takes precedence."""

OPEN_LICENSES: frozenset[str] = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "CC-BY-2.5",
        "CC-BY-3.0",
        "CC-BY-4.0",
        "CC-BY-SA-3.0",
        "CC-BY-SA-4.0",
        "CC0-1.0",
        "MIT",
        "public-domain",
        "public-domain-US",
        "unrestricted",
    }
)
"""Licences under which anyone may publish the rows and the models trained on them. All others, `unspecified`
included, need the user's decision."""

_HUB_IDENTIFIERS: dict[str, str] = {
    **{name: name.lower() for name in OPEN_LICENSES - {"public-domain", "public-domain-US", "unrestricted"}},
    UNSPECIFIED: "unknown",
}

_OTHER_NAMES: dict[str, str] = {
    "apache-2.0; texts public domain": "Apache-2.0",
    "open, commercial use allowed": "unrestricted",
    "public domain in the usa (project gutenberg licence)": "public-domain-US",
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
    return _OTHER_NAMES.get(plain.lower()) or known.get(plain.lower().replace(" ", "-"), plain)


def is_open(license_name: str) -> bool:
    """True if rows under this licence may be published without a decision of the user."""
    return license_name in OPEN_LICENSES


def hub_licenses(license_names: Iterable[str]) -> list[str]:
    """Licence identifiers of the Hub's dataset cards, sorted; `other` for licences that it does not know."""
    return sorted({_HUB_IDENTIFIERS.get(name, "other") for name in license_names})
