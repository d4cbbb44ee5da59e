"""The event types of ACE 2005: the paper's ten seen types, and the FrameNet frames of all types.

Types are written as `Type:Subtype`. The frames are those of Appendix C of "Semi-supervised New Event Type
Induction and Description via Contrastive Loss-Enforced Batch Attention".
"""

from __future__ import annotations

ACE_SEEN_TYPES: tuple[str, ...] = (
    "Conflict:Attack",
    "Movement:Transport",
    "Life:Die",
    "Contact:Meet",
    "Justice:Arrest-Jail",
    "Justice:Sentence",
    "Transaction:Transfer-Money",
    "Personnel:Elect",
    "Transaction:Transfer-Ownership",
    "Personnel:End-Position",
)
"""The types whose labels the paper trains on: the ten with the most mentions, in that order."""

ACE_FRAMES: dict[str, tuple[str, ...]] = {
    "Justice:Appeal": ("Appeal",),
    "Life:Be-Born": ("Birth_scenario",),
    "Justice:Charge-Indict": ("Notification_of_charges",),
    "Justice:Convict": ("Verdict",),
    "Business:Declare-Bankruptcy": ("Wealthiness",),
    "Conflict:Demonstrate": ("Protest",),
    "Life:Divorce": ("Personal_relationship",),
    "Business:End-Org": ("Organization", "Process_end"),
    "Justice:Extradite": ("Extradition",),
    "Justice:Fine": ("Fining",),
    "Life:Injure": ("Cause_harm", "Experience_bodily_harm"),
    "Life:Marry": ("Forming_relationships",),
    "Personnel:Nominate": ("Appointing",),
    "Contact:Phone-Write": ("Contacting",),
    "Justice:Release-Parole": ("Releasing_from_custody",),
    "Business:Start-Org": ("Organization", "Process_start"),
    "Personnel:Start-Position": ("Being_employed", "Process_start"),
    "Justice:Sue": ("Judgment_communication",),
    "Justice:Trial-Hearing": ("Trial",),
    "Justice:Pardon": ("Pardon",),
    "Business:Merge-Org": ("Organization", "Amalgamation"),
    "Justice:Acquit": ("Verdict",),
    "Justice:Execute": ("Execution",),
    "Conflict:Attack": ("Attack",),
    "Movement:Transport": ("Transportation_status",),
    "Life:Die": ("Death",),
    "Contact:Meet": ("Make_acquaintance", "Meet_with", "Come_together"),
    "Justice:Arrest-Jail": ("Arrest", "Prison", "Imprisonment", "Being_incarcerated"),
    "Justice:Sentence": ("Sentencing",),
    "Transaction:Transfer-Money": ("Commerce_money-transfer",),
    "Personnel:Elect": ("Change_of_leadership", "Choosing"),
    "Transaction:Transfer-Ownership": ("Commerce_goods-transfer",),
    "Personnel:End-Position": ("Being_employed", "Process_end"),
}
"""The frames of each of the 33 types, in the paper's order. Every frame that inherits from one of them,
directly or not, is a valid target, too (`eventformers.datasets_scripts.frame_reader.frame_descendants`)."""


def ace_frames(event_type: str, parent_type: str = "") -> tuple[str, ...]:
    """Look up the frames of an event type of ACE 2005; empty for any other type.

    Args:
        event_type: `Type:Subtype` or `Type.Subtype`; or only the subtype if its type is given.
        parent_type: the type of a subtype.
    """
    name = f"{parent_type}:{event_type}" if parent_type else event_type.replace(".", ":", 1)
    return ACE_FRAMES.get(name, ())
