"""Estimates and plans from Python are the command line's own."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch
import vramfit
from vramfit.asking.live import as_applied
from small import BATCH, blocks, loss_function


@pytest.fixture(scope="module")
def estimate():
    model, inputs, targets = blocks()
    return vramfit.estimate(model, inputs, targets=targets, loss=loss_function, batch=64, optimizer="adam", vram="1GiB")


@pytest.fixture(scope="module")
def plans():
    model, inputs, targets = blocks()
    late = {"targets": targets, "loss": loss_function, "zero_grad": "before-backward"}
    needed = vramfit.estimate(model, inputs, **late).peak_reserved
    return vramfit.plan(model, {"x": inputs}, **late, vram=int(needed * 0.97), margin=0, keep=["amp", "dtype", "optimizer", "batch", "seq"])


def test_names_to_keep_are_added_to_what_apply_cannot_change():
    fixed = ["optimizer-state", "step-in-backward", "fused-attention"]
    model, inputs, _ = blocks()
    assert as_applied(model, inputs, {})["keep"] == fixed
    assert as_applied(model, inputs, {"keep": "amp,optimizer-state"})["keep"] == ["amp", "optimizer-state", "step-in-backward", "fused-attention"]
    assert as_applied(model, inputs, {"keep": []})["keep"] == []
    assert "keep" not in as_applied("model.vramfit", inputs, {})


def test_an_estimate_is_what_the_command_says_of_a_capture(estimate, tmp_path):
    model, inputs, targets = blocks()
    path = tmp_path / "model.vramfit"
    vramfit.capture(model, inputs, path, targets=targets, loss=loss_function)
    command = [vramfit.find_binary(), "estimate", str(path), "--batch", "64", "--optimizer", "adam", "--vram", "1GiB", "--json"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    said["model"] = "Blocks"
    assert dict(estimate.raw, notes=[]) == dict(said, notes=[])
    assert estimate.settings["sizes"]["batch"] == 64 and estimate.parameters == sum(p.numel() for p in model.parameters())


def test_fields_are_typed_and_sum_up(estimate):
    assert sum(size for _, size in estimate.breakdown.items()) == estimate.peak_allocated
    assert estimate.fits is True and estimate.fit.verdict == "fits" and estimate.exact and estimate.unmodelled == ()
    assert estimate.range.low <= estimate.peak_allocated <= estimate.range.high
    assert [phase.phase for phase in estimate.phases[:4]] == ["build", "forward", "backward", "step"]
    assert max(phase.peak for phase in estimate.phases[1:]) == estimate.peak_allocated


def test_what_does_not_fit_says_what_it_needs_and_where_it_dies(estimate):
    model, inputs, targets = blocks()
    small = vramfit.estimate(model, inputs, targets=targets, loss=loss_function, batch=64, optimizer="adam", vram="2MiB")
    assert small.fits is False and small.peak_reserved == estimate.peak_reserved and small.phases == estimate.phases
    assert small.fit.needed == estimate.peak_reserved and small.fit.short == small.fit.needed - 2 * 2**20
    assert small.fit.dies_in is not None and small.fit.dies_in.phase in ("build", "forward", "backward", "step")
    assert re.search(r"does not fit in 2.00 MiB: needs .* short, dies ", small.verdict)
    assert "try `vramfit plan " in small.text() and "/tmp" not in small.text()
    assert estimate.fit.short is None and estimate.fit.dies_in is None


def test_an_estimate_reads_well(estimate):
    text = repr(estimate)
    assert text.startswith("Estimate of Blocks: fits in 1.00 GiB: ") and "exact" in text
    page = estimate._repr_html_()
    assert "Blocks: fits in" in page and "http" not in page and "<script" not in page
    opened, closed = re.findall(r"<(\w+)", page), re.findall(r"</(\w+)", page)
    assert sorted(opened) == sorted(closed)


def test_a_notebook_shows_the_bar_of_the_calculator(estimate):
    from vramfit.answers.html import _BARS

    root = Path(__file__).resolve().parents[2] / "crates"
    colours = dict(re.findall(r"(--c\d+): (#\w+)", (root / "report/src/page/tokens.css").read_text().split("@media")[0]))
    drawing = (root / "web/src/calculator/page/drawing.js").read_text()
    parts = re.findall(r'\["(\w+)", "(--c\d+)"\]', drawing)
    assert list(_BARS.items()) == [(name, colours[colour]) for name, colour in parts]
    answer = vramfit.estimate("gpt2", batch=64, gpu="RTX 3060")
    page = answer._repr_html_()
    assert "CUDA context" in page and "repeating-linear-gradient" in page and "aria-label" in page
    widths = [float(width) for width in re.findall(r'title="[^"]*" style="width:([\d.]+)%', page)]
    assert abs(sum(widths) - 100 / 1.02) < 0.1, "the bar is what the device's memory is made of, against the line"
    assert sum(answer._device_parts().values()) == answer.device_used
    assert "repeating-linear-gradient" not in estimate._repr_html_() and "CUDA context" not in estimate._repr_html_()


def test_the_same_question_gives_text_and_page(estimate, tmp_path):
    assert "fits in 1.00 GiB" in estimate.text() and "/tmp" not in estimate.text()
    path = estimate.html(tmp_path / "page.html")
    assert "<html" in open(path, encoding="utf-8").read()


def test_a_name_needs_no_module_and_no_inputs():
    answer = vramfit.estimate("bert-base", batch=8, gpu="RTX 3060")
    assert answer.model == "bert-base" and answer.fit.gpu == "RTX 3060" and not answer.exact
    assert vramfit.estimate("bert-base", batch=8).fits is None
    with pytest.raises(vramfit.SettingError, match="inputs"):
        vramfit.estimate("bert-base", torch.ones(2))


def test_weights_on_meta_give_the_same_answer(estimate):
    with torch.device("meta"):
        model, inputs, targets = blocks()
    other = vramfit.estimate(model, inputs, targets=targets, loss=loss_function, batch=64, optimizer="adam", vram="1GiB")
    assert other.peak_allocated == estimate.peak_allocated and other.phases == estimate.phases


@pytest.mark.parametrize("settings", [
    dict(amp="bf16"), dict(amp="fp16"), dict(dtype="bf16"), dict(mode="eval"), dict(mode="eval", grad=True), dict(dtype="fp32"),
], ids=str)
def test_one_precision_alone_answers_as_all_of_them_do(settings, tmp_path):
    model, inputs, targets = blocks()
    path = tmp_path / "all.vramfit"
    vramfit.capture(model, inputs, path, targets=targets, loss=loss_function)
    one = vramfit.estimate(model, inputs, targets=targets, loss=loss_function, **settings)
    assert one.phases == vramfit.estimate(path, **settings).phases


def test_a_live_optimizer_is_its_name():
    model, inputs, targets = blocks()
    common = dict(targets=targets, loss=loss_function)
    live = vramfit.estimate(model, inputs, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4), **common)
    named = vramfit.estimate(model, inputs, optimizer="momentum", weight_decay=True, **common)
    assert live.phases == named.phases and live.exact
    # Foreach adds weight decay to a copy of all gradients.
    plain = vramfit.estimate(model, inputs, optimizer="momentum", **common)
    step = [max(phase.peak for phase in one.phases if phase.phase == "step") for one in (live, plain)]
    assert step[0] >= step[1] + 4 * sum(p.numel() for p in model.parameters()) * 0.9
    groups = torch.optim.AdamW([{"params": model.head.parameters()}, {"params": model.blocks.parameters()}])
    grouped = vramfit.estimate(model, inputs, optimizer=groups, **common)
    named = vramfit.estimate(model, inputs, optimizer_groups="head.*;blocks.*", **common)
    assert grouped.exact and grouped.phases == named.phases
    # Its temporaries are those of one group at a time.
    whole = vramfit.estimate(model, inputs, **common)
    step = [max(phase.peak for phase in one.phases if phase.phase == "step") for one in (grouped, whole)]
    assert step[0] < step[1]
    capturable = vramfit.estimate(model, inputs, optimizer=torch.optim.Adam(model.parameters(), maximize=True), **common)
    assert not capturable.exact and "maximize" in capturable.unmodelled[0] and "maximize" in repr(capturable)


def test_bad_questions_are_refused_before_anything_is_captured():
    model, inputs, _ = blocks()
    with pytest.raises(vramfit.SettingError, match="did you mean 'batch'"):
        vramfit.estimate(model, inputs, batchsize=3)
    with pytest.raises(vramfit.SettingError, match="inputs"):
        vramfit.estimate(model)
    with pytest.raises(vramfit.SettingError, match="leave optimizer_impl out"):
        vramfit.estimate(model, inputs, optimizer=torch.optim.Adam(model.parameters()), optimizer_impl="fused")
    with pytest.raises(vramfit.SettingError, match="loss"):
        vramfit.estimate(model, inputs, loss="hinge")
    with pytest.raises(vramfit.VramfitError, match="neither --gpu nor --vram"):
        vramfit.plan("bert-base")
    with pytest.raises(vramfit.VramfitError, match="no-such-model"):
        vramfit.estimate("no-such-model")
    with pytest.raises(vramfit.VramfitError, match="^Blocks: ") as refused:
        vramfit.estimate(model, inputs, targets=None, loss="mean", seq=4)
    assert "/tmp" not in str(refused.value)


def test_plans_fit_and_say_what_they_change(plans):
    assert plans.start.changes == () and plans.fit.verdict == "does-not-fit" and plans.fits
    for plan in plans:
        assert plan.peak_reserved <= plans.fit.capacity and plan.changes and "optimizer.step()" in plan.code
        assert plan.effect in ("none", "rounding", "training") and plan.settings["optimizer"]
    assert plans.best is plans[0] and plans.best.effect == "none" and len(plans) == len(plans.plans)
    assert {plan.effect for plan in plans} == {effect for effect in ("none", "rounding", "training") if plans.group(effect)}


def test_plans_read_well(plans, tmp_path):
    assert repr(plans).startswith("Plans for Blocks: as it is, it does not fit in ") and "[0]" in repr(plans)
    assert repr(plans.best).startswith("Plan: ") and plans.best.changes[0].after in repr(plans.best)
    for page in (plans._repr_html_(), plans.best._repr_html_()):
        assert "http" not in page and page.count("<div") == page.count("</div")
    assert "<html" in open(plans.html(tmp_path / "plans.html"), encoding="utf-8").read()


def test_where_nothing_fits_that_is_the_answer():
    model, inputs, targets = blocks()
    plans = vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram="1MiB")
    assert not plans.fits and plans.best is None and plans.nothing_fits["missing"] > 0 and "no plan fits" in repr(plans)


def test_the_largest_batch():
    model, inputs, targets = blocks()
    needed = vramfit.estimate(model, inputs, targets=targets, loss=loss_function).peak_reserved
    assert vramfit.max_batch(model, inputs, targets=targets, loss=loss_function, vram=needed, margin=0) >= BATCH
    assert vramfit.max_batch(model, inputs, targets=targets, loss=loss_function, vram=needed) < BATCH, "2 % stay free"
    assert vramfit.max_batch(model, inputs, targets=targets, loss=loss_function, vram="1MiB") == 0


def test_a_gpu_whose_memory_is_known_between_bounds_is_shown_with_both():
    answer = vramfit.estimate("resnet18", gpu="RTX 3060 Ti")
    assert answer.fit.room == "7.28 GiB to 8.00 GiB" and answer.fit.capacity < answer.fit.capacity_high
    assert "fits in 7.28 GiB to 8.00 GiB of RTX 3060 Ti" in repr(answer) and "7.28 GiB to 8.00 GiB" in answer._repr_html_()
    assert vramfit.estimate("resnet18", vram="8GiB").fit.room == "8.00 GiB"


def test_a_verdict_that_lies_between_the_bounds_reads_as_a_sentence():
    batches = [vramfit.estimate("bert-base", gpu="RTX 3060 Ti", seq=128, batch=batch) for batch in range(66, 92, 4)]
    close = next(answer for answer in batches if answer.fit.verdict == "too-close")
    assert close.verdict.startswith("is too close to tell in 7.28 GiB to 8.00 GiB of RTX 3060 Ti: ") and close.fits is False
