"""Which runs to make: the cases, the allocator settings, and the caps that follow from measured peaks."""

from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
LONG = ("big", "huge")
CASES = sorted(
    path.stem for path in (Path(__file__).resolve().parent / "cases").glob("*.py") if path.stem not in LONG
)

MAIN_SETTINGS = {
    "expandable": "expandable_segments:True",
    "split128": "max_split_size_mb:128",
    "round4": "roundup_power2_divisions:4",
}
OTHER_SETTINGS = {
    "segment64": "large_segment_size_mb:64",
    "rounding32": "max_split_size_mb:64,max_non_split_rounding_mb:32",
    "expandable-segment12": "expandable_segments:True,large_segment_size_mb:12",
    "round-table": "roundup_power2_divisions:[64:8,256:4,1024:2,>:1]",
}

MEASURED_UNDER_SETTINGS = (
    "mlp",
    "cnn",
    "resnet18",
    "mobilenet",
    "bert",
    "gpt2",
    "llama",
    "lstm",
    "vit",
    "amp_bf16",
    "checkpointing",
    "varying",
)
RECORDED_UNDER_SETTINGS = ("cnn", "resnet18", "bert", "gpt2", "varying")
MEASURED_UNDER_OTHERS = ("resnet18", "gpt2", "varying")
RECORDED_UNDER_OTHERS = ("varying",)
CAPPED = ("resnet18", "bert", "gpt2", "lstm", "varying")
COLLECTED = ("resnet18", "bert", "varying")
SWEEP = (1.04, 1.08, 1.12, 1.16, 1.20, 1.25, 1.30, 1.35)
FRAGMENTED = "oom_fragmented"


@dataclass(frozen=True)
class Run:
    case: str
    label: str = ""
    alloc_conf: str = ""
    cap_mib: int | None = None
    run: int = 0
    recorded: bool = True

    @property
    def name(self):
        parts = [self.case, self.label] if self.recorded else [self.case, self.label, f"run{self.run}"]
        return ".".join(part for part in parts if part)


def first_runs():
    """Every case as it is, recorded; what they measure decides the caps of the later runs."""
    yield Run(FRAGMENTED, "uncapped", cap_mib=0, recorded=False)
    for case in CASES:
        yield Run(case)


def runs_under_settings(repetition):
    """Repetition 0 is recorded for the fixtures; the others measure the spread of the peak."""
    groups = (
        (MAIN_SETTINGS, MEASURED_UNDER_SETTINGS, RECORDED_UNDER_SETTINGS),
        (OTHER_SETTINGS, MEASURED_UNDER_OTHERS, RECORDED_UNDER_OTHERS),
    )
    for settings, measured, recorded in groups:
        for label, alloc_conf in settings.items():
            for case in measured:
                yield Run(case, label, alloc_conf, run=repetition, recorded=repetition == 0 and case in recorded)
    for label, alloc_conf in MAIN_SETTINGS.items():
        yield Run(FRAGMENTED, f"uncapped-{label}", alloc_conf, cap_mib=0, run=repetition, recorded=False)


def runs_under_caps(results, repetition):
    """Caps just below the peak reserved (PyTorch frees and retries) and below the peak allocated (it fails)."""
    recorded = repetition == 0
    for case in CAPPED:
        peaks = results.get(case)
        if not peaks:
            continue
        reserved, allocated = peaks["peak_reserved"] // MIB, peaks["peak_allocated"] // MIB
        caps = {"cap95": reserved * 95 // 100, "cap85": reserved * 85 // 100}
        if recorded:
            caps["cap-low"] = allocated * 70 // 100
        for label, cap in caps.items():
            yield Run(case, label, cap_mib=cap, run=repetition, recorded=recorded)
        if case in RECORDED_UNDER_OTHERS or case == "bert":
            for name in ("expandable", "split128"):
                label, cap = f"{name}-cap85", caps["cap85"]
                yield Run(case, label, MAIN_SETTINGS[name], cap_mib=cap, run=repetition, recorded=recorded)
        if case in COLLECTED:
            conf = "garbage_collection_threshold:0.6"
            yield Run(case, "collect60", conf, cap_mib=reserved, run=repetition, recorded=recorded)
    if recorded and results.get("varying"):
        cap = results["varying"]["peak_reserved"] * 85 // 100
        conf = f"per_process_memory_fraction:{cap / results['varying']['device_total']:.6f}"
        yield Run("varying", "fraction", conf)


def sweep_of_caps(results):
    """Where is the cap at which the default fails and expandable segments do not?"""
    uncapped = results.get(f"{FRAGMENTED}.uncapped.run0")
    if uncapped:
        for number, factor in enumerate(SWEEP):
            cap = int(uncapped["peak_allocated"] * factor) // MIB
            yield Run(FRAGMENTED, f"sweep{number}", cap_mib=cap, recorded=False)
            yield Run(FRAGMENTED, f"sweep{number}-expandable", MAIN_SETTINGS["expandable"], cap, recorded=False)


def runs_at_chosen_cap(results):
    """The middle one of the caps at which only the default fails, recorded under each setting."""
    caps = []
    for number in range(len(SWEEP)):
        default = results.get(f"{FRAGMENTED}.sweep{number}.run0")
        expandable = results.get(f"{FRAGMENTED}.sweep{number}-expandable.run0")
        if default and expandable and default["oom"] and not expandable["oom"]:
            caps.append(default["cap_mib"])
    if not caps:
        print("warning: no cap found at which only the default settings fail; see the sweep in results.json")
        return
    cap = caps[len(caps) // 2]
    yield Run(FRAGMENTED, "chosen", cap_mib=cap)
    for label, alloc_conf in MAIN_SETTINGS.items():
        yield Run(FRAGMENTED, f"chosen-{label}", alloc_conf, cap)


def repetitions(results):
    for repetition in (1, 2):
        for case in CASES:
            yield Run(case, run=repetition, recorded=False)
        yield from runs_under_settings(repetition)
    yield from runs_under_caps(results, 1)


def phases():
    """One function a phase: a phase's runs follow from the results of those before it."""
    return (
        ("first runs", lambda results: first_runs()),
        (
            "settings and caps",
            lambda results: [
                *sweep_of_caps(results),
                *runs_under_caps(results, 0),
                *sorted(runs_under_settings(0), key=lambda run: not run.recorded),
            ],
        ),
        ("repetitions", lambda results: [*runs_at_chosen_cap(results), *repetitions(results)]),
    )
