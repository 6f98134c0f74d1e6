"""Amendments: separate files that say what is done otherwise than a frozen plan says, and why.

They may change what is measured (samples, models), plan the study for another profile, and state
exclusions or decisions, of all profiles or of one. What decides a verdict cannot be amended: a
study with other criteria is another study.
"""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, JsonValue, PositiveInt, field_validator, model_validator

from diffdraft.errors import UserError
from diffdraft.prereg import ledger
from diffdraft.prereg.criteria import Name, Strict, Text
from diffdraft.prereg.ledger import Digest
from diffdraft.prereg.reading import fit, parse_yaml, refuse
from diffdraft.prereg.schema import Plan, load_plan

APPLIED = ("samples", "models")  # an amendment of these changes what the audit expects
STATED = ("exclusions", "decisions")  # these it adds to, in words


class Change(Strict):
    """`field` is a path of keys in the plan, like `samples.tiny.batches`, or a list it adds to.

    `samples.NAME` and `models.NAME` may name a profile that the plan does not have yet.
    `decisions` is of all profiles, `decisions.NAME` of one that the plan has by then; so with
    `exclusions`.
    """

    field: Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)*$")]
    becomes: JsonValue

    @field_validator("field")
    @classmethod
    def _may_be_amended(cls, field: str) -> str:
        first, *path = field.split(".")
        if first not in APPLIED and (first not in STATED or len(path) > 1):
            allowed = ", ".join((*APPLIED, *STATED))
            raise refuse(field, "a field that needs a new study", f"a field of {allowed}")
        return field

    @model_validator(mode="after")
    def _states_a_text(self) -> "Change":
        """A colon in a sentence makes a mapping of it in YAML, unless it is quoted."""
        if self.stated and not (isinstance(self.becomes, str) and self.becomes.strip()):
            raise refuse(self.field, repr(self.becomes), "a text, quoted if it has a colon")
        return self

    @property
    def profile(self) -> str | None:
        """The profile that it is about; none for one of all profiles, be they changed or not."""
        _, *path = self.field.split(".")
        return path[0] if path else None

    @property
    def stated(self) -> bool:
        """Whether it says something in words, where others change what is measured."""
        return self.field.split(".")[0] in STATED

    def words(self) -> str:
        """What it changes, for a reader: of whom, and what it states."""
        if not self.stated:
            return f"changes {self.field}"
        whose = f"profile {self.profile} only" if self.profile else "all profiles"
        return f"{self.field.split('.')[0]} of {whose}: {self.becomes}"


class Amendment(Strict):
    """`prereg/STUDY.amendment-N.yaml`. `seen` says what was known of the results by then.

    `results_existed` is of the profiles that it is about (`profiles`), or of any.
    """

    study: Name
    amendment: PositiveInt
    parent: Digest
    reason: Text
    seen: Text
    results_existed: bool
    changes: list[Change] = Field(min_length=1)

    def profiles(self) -> list[str]:
        """The profiles that every change keeps to; none where one change is of all of the study."""
        named = {change.profile for change in self.changes}
        return [] if None in named else sorted(name for name in named if name)

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True, width=100)


def amendment_name(study: str, number: int) -> str:
    return f"{study}.amendment-{number}.yaml"


def amendment_files(folder: str | Path, study: str) -> list[Path]:
    """The amendment files of a study, in the order of their numbers."""
    found = Path(folder).glob(f"{study}.amendment-*.yaml")
    return sorted(found, key=lambda path: (len(path.name), path.name))


def load_amendment(path: str | Path) -> Amendment:
    """Read an amendment. Raises `UserError` on anything it must not say."""
    path = Path(path)
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "an amendment")
    return fit(Amendment, parse_yaml(path.read_bytes(), path), path)


def check_chain(folder: str | Path, study: str) -> list[Amendment]:
    """The amendments of a study, each naming the one before it (the first: the plan) by digest.

    Raises `UserError` at the first that is not frozen, out of order, or names another parent.
    """
    folder = Path(folder)
    parent = ledger.require_frozen(folder / f"{study}.yaml").sha256
    chain = []
    for number, path in enumerate(amendment_files(folder, study), start=1):
        amendment = load_amendment(path)
        entry = ledger.require_frozen(path)
        name = amendment_name(amendment.study, amendment.amendment)
        if amendment.amendment != number or name != path.name:
            raise UserError(path, "amendment", name, amendment_name(study, number))
        if amendment.parent != parent or entry.parent != parent:
            raise UserError(path, "parent", amendment.parent[:12], parent[:12])
        parent = entry.sha256
        chain.append(amendment)
    return chain


def effective(plan: Plan, chain: Iterable[Amendment], file: object) -> Plan:
    """The plan with the amended samples and models; criteria and digest stay the plan's own.

    Raises `UserError` if a change names a key or a profile that the plan does not have, or what
    comes out does not fit the schema.
    """
    value = plan.model_dump()
    for amendment in chain:
        for change in amendment.changes:
            if not change.stated:
                _set(value, change, file)
        _check_stated(value, amendment, file)
    amended = fit(Plan, value, file)
    amended._sha256 = plan.sha256
    return amended


def load_amended_plan(path: str | Path) -> Plan:
    """What a measurement made now has to keep to: the plan, with its amendments if it has any."""
    path = Path(path)
    plan = load_plan(path)
    if not amendment_files(path.parent, plan.study):
        return plan
    return effective(plan, check_chain(path.parent, plan.study), path)


def _check_stated(value: dict[str, Any], amendment: Amendment, file: object) -> None:
    """Words of one profile are of one that the plan has, with this amendment."""
    profiles = value["samples"] if isinstance(value["samples"], dict) else {}
    for change in amendment.changes:
        if change.stated and change.profile not in (None, *profiles):
            raise UserError(file, "changes", change.field, "a profile that the plan has")


def _set(value: dict[str, Any], change: Change, file: object) -> None:
    *path, last = change.field.split(".")
    target: Any = value
    for key in path:
        target = target.get(key) if isinstance(target, dict) else None
    another_profile = len(path) == 1 and path[0] in APPLIED
    if not isinstance(target, dict) or not (another_profile or last in target):
        raise UserError(file, "changes", change.field, "a key that the plan has")
    target[last] = copy.deepcopy(change.becomes)  # a later change may be of a key in it
