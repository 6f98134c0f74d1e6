"""RPRM stage 0: what must hold before a position is measured, as checks that run.

Each check establishes one fact that the original's audit established in prose: what the adapters
are, what the known predictor is, that the new variable is not it under another name, and that no
window can be on two sides. It trains nothing and computes no statistic of uncertainty against
acceptance.
"""

from pathlib import Path

from diffdraft import files
from diffdraft.config import Profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, read_adapter
from diffdraft.measure.stage0_checks import GROUPS, Subject
from diffdraft.measure.windows import planned_windows
from diffdraft.prereg.schema import Plan
from diffdraft.targets.load import load_target
from diffdraft.training.drafter import ADAPTER_FILE


def run_stage0(
    profile: Profile,
    plan: Plan,
    corpus: Path,
    target_folder: Path,
    adapter_folders: list[Path],
    out: Path,
) -> None:
    """Run all checks and write them; raises `UserError` at the first that does not hold."""
    subject = load_subject(profile, plan, corpus, target_folder, adapter_folders)
    checks = [check for group in GROUPS for check in group(subject)]
    for check in checks:
        if not check.holds:
            raise UserError(f"stage 0: {check.id}", check.says, check.found, check.expected)
    subject.target.check_unchanged()
    adapters = {
        f"{tag}_sha256": files.sha256_file(folder / ADAPTER_FILE)
        for tag, folder in subject.adapter_folders.items()
    }
    record = {
        "subject": {
            "target_fingerprint": subject.target.fingerprint,
            "plan_sha256": plan.sha256,
            "student_ids_sha256": subject.windows.digest(),
            **adapters,
        },
        "checks": [{**vars(check), "holds": check.holds} for check in checks],
    }
    files.write_json(out, record)


def load_subject(
    profile: Profile, plan: Plan, corpus: Path, target_folder: Path, adapter_folders: list[Path]
) -> Subject:
    """Load target, both adapters on one set of modules, and the first batch of windows."""
    target = load_target(target_folder)
    windows = planned_windows(plan, profile.name, corpus, target.noise_high)
    folders = {folder.name: folder for folder in adapter_folders}
    first = next(iter(folders.values())) / ADAPTER_FILE
    adapter = load_adapter(target.model, target.fingerprint, first)
    adapter.zero()
    trained = {tag: read_adapter(folder / ADAPTER_FILE)[0] for tag, folder in folders.items()}
    return Subject(
        profile,
        corpus,
        target_folder,
        folders,
        windows,
        target,
        adapter,
        trained,
        windows.batch(0),
    )
