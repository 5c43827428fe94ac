"""Applied plans give the plain loop's gradients, do what the printed code does, and can be undone."""

import contextlib
import copy
import dataclasses
import importlib
import pkgutil
import warnings

import pytest
import torch
import vramfit
from small import BATCH, blocks, images, loss_function
from torch import nn
from vramfit.answers.plan import Parts
from vramfit.applying import tricks
from vramfit.applying.tricks.trick import LiveTrick


def plain(model, inputs, targets, steps=1, **options):
    """Runs the plain loop and returns the gradients of its last step."""
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_function(model(inputs), targets).backward()
        optimizer.step()
    return {name: weight.grad for name, weight in model.named_parameters()}


def assert_same(found, wanted, tolerance=1e-5):
    assert found.keys() == wanted.keys()
    for name in wanted:
        distance = (found[name] - wanted[name]).norm() / wanted[name].norm().clamp_min(1e-12)
        assert distance < tolerance, (name, float(distance))


def gradients(model):
    return {name: weight.grad for name, weight in model.named_parameters()}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    for name, make in (("blocks", blocks), ("images", images)):
        model, inputs, targets = make()
        vramfit.capture(model, inputs, folder / name, targets=targets, loss=loss_function)
    return folder


_FOUND = {}


def planned(captures, name="blocks", **settings):
    """A cache of plans."""
    key = (name, str(settings))
    if key not in _FOUND:
        _FOUND[key] = vramfit.plan(captures / name, **{"vram": "1GiB", **settings})
    return _FOUND[key]


def too_small(captures, name):
    """Plans for less memory than the training needs."""
    vram = int(planned(captures, name).start.peak_reserved * 0.97)
    # Of these small models a plan without effect may be slow, which is only shown if nothing faster fits.
    return planned(captures, name, vram=vram, margin=0, keep="amp,dtype,adapters,optimizer,optimizer-state,step-in-backward,batch,seq")


def state_of(model):
    return {name: {key: id(value) for key, value in vars(module).items()} for name, module in model.named_modules()}


WITHOUT_EFFECT = [
    dict(checkpoint="blocks"), dict(checkpoint="blocks.*.up,head"), dict(accumulate=4, batch=BATCH // 4), dict(outputs="released"),
    dict(optimizer_impl="fused"), dict(optimizer_impl="for-loop"), dict(optimizer_impl="foreach"), dict(zero_grad="before-backward"),
    dict(checkpoint="blocks", checkpoint_save="matmul"), dict(offload_activations="pinned"),
    dict(set_to_none=False), dict(inputs_are="fresh"), dict(alloc_conf="expandable_segments:True"),
    dict(checkpoint="blocks", accumulate=2, batch=BATCH // 2, outputs="released", inputs_are="fresh", optimizer_impl="fused"),
]


@pytest.mark.parametrize("settings", WITHOUT_EFFECT, ids=str)
def test_settings_without_effect_give_the_same_gradients_and_weights(captures, settings):
    start = planned(captures, **settings).start
    model, inputs, targets = blocks()
    reference = copy.deepcopy(model)
    wanted = plain(reference, inputs, targets, steps=3)
    before = state_of(model)
    optimizer = torch.optim.AdamW(model.parameters())
    applied = start.apply(model, optimizer, loss=loss_function)
    losses = [float(applied.step({"x": inputs}, targets)) for _ in range(3)]
    assert losses[0] > losses[2]
    assert_same(gradients(model), wanted, 1e-3)
    for (name, weight), other in zip(model.named_parameters(), reference.parameters()):
        # Adam divides by numbers that may be almost zero.
        assert torch.allclose(weight, other, atol=2e-3), name
    applied.undo()
    applied.undo()
    for use in (lambda: applied.step({"x": inputs}, targets), lambda: applied.backward(torch.zeros(())), applied.update, applied.autocast().__enter__):
        with pytest.raises(vramfit.PlanError, match="undone"):
            use()
    model.zero_grad()
    after = state_of(model)
    assert after.keys() == before.keys() and all(after[name].keys() == before[name].keys() for name in before)
    assert "forward" not in vars(model.blocks[0])
    assert optimizer.param_groups[0]["fused"] is None and optimizer.param_groups[0]["foreach"] is None
    optimizer.zero_grad()
    loss_function(model(inputs), targets).backward()
    optimizer.step()


def language_model():
    transformers = pytest.importorskip("transformers")
    sizes = dict(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, max_position_embeddings=64)).train()
    tokens = torch.randint(0, 97, (4, 24))
    return model, {"input_ids": tokens, "labels": tokens}


@pytest.mark.parametrize("by_code", [False, True], ids=["applied", "printed"])
def test_a_loss_in_chunks_gives_the_same_gradients(by_code):
    model, batch = language_model()
    model(**batch).loss.backward()
    wanted = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    start = vramfit.plan(model, batch, vram="1GiB", chunked_loss=5).start
    if by_code:
        exec(compile(start.code.replace('"cuda"', '"cpu"'), "printed", "exec"), {"model": model, "batches": [batch]})
        assert_same(gradients(model), wanted, 1e-4)
        return
    before = state_of(model)
    with start.apply(model) as training:
        training.step(batch)
        assert_same(gradients(model), wanted, 1e-4)
        assert training.outputs.logits.shape[-1] == 32
    model.zero_grad()
    assert {name: set(found) for name, found in state_of(model).items()} == {name: set(found) for name, found in before.items()}
    assert model(**batch).logits.shape[-1] == 97


def test_a_model_without_a_loss_function_is_refused(captures):
    model, _, _ = blocks()
    start = planned(captures).start
    parts = dataclasses.replace(start.parts, replaced_loss={"head": "head", "chunks": 2})
    with pytest.raises(vramfit.PlanError, match="loss_function"):
        dataclasses.replace(start, parts=parts).apply(model, loss=loss_function)


@pytest.mark.parametrize("name, make", [("blocks", blocks), ("images", images)])
def test_plans_without_effect_give_the_same_gradients(captures, name, make):
    plans = too_small(captures, name).group("none")
    assert plans
    for plan in plans:
        model, inputs, targets = make()
        wanted = plain(copy.deepcopy(model), inputs, targets)
        with plan.apply(model, torch.optim.AdamW(model.parameters()), loss=loss_function) as applied:
            applied.step(inputs, targets)
            assert_same(gradients(model), wanted, 1e-4)
            assert [n for n, m in model.named_modules() if "forward" in vars(m)] == list(plan.parts.checkpointed)
        assert not any("forward" in vars(module) for module in model.modules())


def test_activations_in_place_are_switched_and_switched_back(captures):
    start = planned(captures, "images").start
    names = ("act", "leaky")
    start = vramfit.Plan(**{**vars(start), "parts": Parts((), None, names, None, None, "function")})
    model, inputs, targets = images()
    wanted = plain(copy.deepcopy(model), inputs, targets)
    with start.apply(model, torch.optim.AdamW(model.parameters()), loss=loss_function) as applied:
        assert [name for name, module in model.named_modules() if getattr(module, "inplace", False)] == list(names)
        applied.step(inputs, targets)
        assert_same(gradients(model), wanted)
    assert not any(getattr(module, "inplace", False) for module in model.modules())


def test_the_binary_names_the_activations_that_may_be_in_place(captures):
    found = [plan for plan in too_small(captures, "images") if plan.parts.in_place]
    assert all(plan.parts.in_place == ("act", "leaky") and plan.settings["in_place"] for plan in found)


def test_dropout_is_the_same_when_it_runs_again(captures):
    start = planned(captures, checkpoint="blocks").start
    model, inputs, targets = blocks(dropout=0.3)
    reference = copy.deepcopy(model)
    torch.manual_seed(7)
    wanted = plain(reference, inputs, targets)
    torch.manual_seed(7)
    start.apply(model, torch.optim.AdamW(model.parameters()), loss=loss_function).step(inputs, targets)
    assert_same(gradients(model), wanted)


def test_sequential_segments():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(6)), nn.Linear(16, 10))
    inputs, targets = torch.randn(8, 16), torch.randint(0, 10, (8,))
    wanted = plain(copy.deepcopy(model), inputs, targets)
    start = vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram="1GiB", checkpoint="sequential:3").start
    assert start.parts.segments == 3
    with start.apply(model) as applied:
        applied.step(inputs, targets)
        assert_same(gradients(model), wanted)
    assert "forward" not in vars(model)


@pytest.mark.parametrize("settings", [dict(amp="bf16"), dict(amp="fp16", clip_grad=True), dict(dtype="bf16")], ids=str)
def test_other_precisions_are_near(captures, settings):
    start = planned(captures, **settings).start
    model, inputs, targets = blocks()
    wanted = plain(copy.deepcopy(model), inputs, targets)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    applied = start.apply(model, optimizer, loss=loss_function)
    loss = applied.step(inputs, targets)
    assert torch.isfinite(loss) and (applied.scaler is not None) == ("fp16" in settings.values())
    found = {name: value.float() for name, value in gradients(model).items()}
    if "clip_grad" in settings:
        assert torch.sqrt(sum((value**2).sum() for value in found.values())) <= 1.01
    else:
        assert_same(found, wanted, 0.1)
    applied.undo()
    assert all(weight.dtype == torch.float32 for weight in (*model.parameters(), *model.buffers()))
    optimizer.zero_grad()
    loss_function(model(inputs), targets).backward()
    optimizer.step()


def test_a_loop_of_ones_own_uses_the_parts(captures):
    start = planned(captures, accumulate=4, batch=BATCH // 4).start
    model, inputs, targets = blocks()
    reference = copy.deepcopy(model)
    plain(reference, inputs, targets)
    applied = start.apply(model, torch.optim.AdamW(model.parameters()))
    stepped = []
    for x, y in zip(inputs.chunk(4), targets.chunk(4)):
        with applied.autocast():
            loss = loss_function(model(x), y)
        applied.backward(loss)
        stepped.append(applied.update())
    assert stepped == [False, False, False, True] and all(weight.grad is None for weight in model.parameters())
    for weight, other in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(weight, other, atol=2e-3)


def test_a_batch_that_does_not_divide_is_weighed(captures):
    start = planned(captures, accumulate=4, batch=8).start
    model, inputs, targets = blocks()
    inputs, targets = inputs[:30], targets[:30]
    wanted = plain(copy.deepcopy(model), inputs, targets)
    start.apply(model, torch.optim.AdamW(model.parameters()), loss=loss_function).step(inputs, targets)
    assert_same(gradients(model), wanted)


def test_an_optimizer_with_state_may_be_switched_and_back(captures):
    start = planned(captures, optimizer_impl="fused").start
    model, inputs, targets = blocks()
    reference = copy.deepcopy(model)
    plain(reference, inputs, targets, steps=3)
    optimizer = torch.optim.AdamW(model.parameters())
    step = lambda: (optimizer.zero_grad(), loss_function(model(inputs), targets).backward(), optimizer.step())  # noqa: E731
    step()
    with start.apply(model, optimizer, loss=loss_function) as applied:
        assert optimizer.param_groups[0]["fused"] is True
        applied.step(inputs, targets)
    assert optimizer.param_groups[0]["fused"] is None
    step()
    for weight, other in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(weight, other, atol=2e-3)


CHANGED_UPDATES = pytest.mark.parametrize("settings", [
    {"step_in_backward": True}, {"optimizer_state": "cpu"}, {"step_in_backward": True, "optimizer_state": "cpu"},
], ids=str)


@CHANGED_UPDATES
def test_updates_in_the_backward_pass_and_on_the_cpu_are_the_plain_loops(captures, settings):
    start = planned(captures, **settings).start
    model, inputs, targets = blocks()
    reference = copy.deepcopy(model)
    plain(reference, inputs, targets, steps=3, lr=1e-3)
    applied = start.apply(model, lambda weights: torch.optim.AdamW(weights, lr=1e-3), loss=loss_function)
    for _ in range(3):
        applied.step(inputs, targets)
    for weight, other in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(weight, other, atol=1e-6)
    assert all(weight.grad is None for weight in model.parameters()) == bool(settings.get("step_in_backward"))
    applied.undo()
    before = [weight.clone() for weight in model.parameters()]
    loss_function(model(inputs), targets).backward()
    assert all(torch.equal(weight, old) and weight.grad is not None for weight, old in zip(model.parameters(), before))


@CHANGED_UPDATES
def test_a_live_optimizer_is_divided_and_goes_on_afterwards(captures, settings):
    start = planned(captures, **settings).start
    model, inputs, targets = blocks()
    reference = copy.deepcopy(model)

    def prepared(model):
        first, *others = model.parameters()
        optimizer = torch.optim.AdamW([{"params": [first], "weight_decay": 0.5}, {"params": others}], lr=1e-2)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

    def plain_step(model, optimizer):
        optimizer.zero_grad()
        loss_function(model(inputs), targets).backward()
        optimizer.step()

    optimizers = []
    for one in (model, reference):
        optimizer, scheduler = prepared(one)
        optimizers.append(optimizer)
        plain_step(one, optimizer)
        applied = start.apply(model, optimizer, loss=loss_function) if one is model else None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                scheduler.step()
                applied.step(inputs, targets) if applied else plain_step(one, optimizer)
        if applied:
            assert all(weight.grad is None for weight in model.parameters()) == bool(settings.get("step_in_backward"))
            applied.undo()
        plain_step(one, optimizer)
    for weight, other in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(weight, other, atol=1e-6)
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert states[0].keys() == states[1].keys() and all(int(state["step"]) == 5 for one in states for state in one.values())


def test_an_optimizer_of_other_weights_too_is_not_divided(captures):
    model, _, _ = blocks()
    other = nn.Parameter(torch.zeros(3))
    with pytest.raises(vramfit.PlanError, match="found 1 weights that are not the model's"):
        planned(captures, step_in_backward=True).start.apply(model, torch.optim.AdamW([*model.parameters(), other]))


def test_without_an_optimizer_one_is_made_as_the_printed_code_does(captures):
    model, _, _ = blocks()
    applied = planned(captures, optimizer="nesterov", optimizer_impl="for-loop").start.apply(model)
    group = applied.optimizer.param_groups[0]
    assert isinstance(applied.optimizer, torch.optim.SGD) and group["nesterov"] and group["foreach"] is False
    assert planned(captures, optimizer="none").start.apply(model).optimizer is None


def test_what_does_not_belong_together_is_refused_and_nothing_is_left_behind(captures):
    plan = planned(captures, checkpoint="blocks").start
    model, inputs, targets = blocks()
    with pytest.raises(vramfit.PlanError, match="needed adamw"):
        plan.apply(model, torch.optim.SGD(model.parameters()))
    assert not any("forward" in vars(module) for module in model.modules())
    with pytest.raises(vramfit.PlanError, match="has no module 'blocks.0'"):
        plan.apply(nn.Linear(2, 2))
    with pytest.raises(vramfit.PlanError, match="needed a torch.optim.Optimizer"):
        plan.apply(model, "adamw")
    with plan.apply(model) as applied, pytest.raises(vramfit.PlanError, match="loss: found none"):
        applied.step(inputs, targets)
    with pytest.raises(vramfit.PlanError, match="none of the model's weights"):
        plan.apply(model, torch.optim.AdamW(nn.Linear(2, 2).parameters()))
    with plan.apply(model), pytest.raises(vramfit.PlanError, match="applied to this model already"):
        plan.apply(model)
    stepped = torch.optim.AdamW(model.parameters())
    loss_function(model(inputs), targets).backward()
    stepped.step()
    with pytest.raises(vramfit.PlanError, match="before the first step"):
        planned(captures, dtype="bf16").start.apply(model, stepped)


class Attending(nn.Module):
    """Attention as products and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.heads, self.head = nn.Embedding(50, 64), nn.Linear(64, 192), nn.Linear(64, 50)

    def forward(self, x):
        query, key, value = self.heads(self.embedding(x)).chunk(3, -1)
        return self.head((query @ key.transpose(1, 2) / 8).softmax(-1) @ value)


def test_a_plan_that_changes_lines_of_the_model_is_not_made_for_a_live_one_and_refused_by_apply():
    model, ids = Attending(), torch.zeros(4, 512, dtype=torch.int64)
    asked = dict(targets=ids, loss=lambda outputs, targets: nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten()), vram="70MiB")

    def is_rewritten(plan):
        return any(change.trick == "fused attention" for change in plan.changes)

    assert not any(map(is_rewritten, vramfit.plan(model, ids, **asked)))
    rewritten = next(filter(is_rewritten, vramfit.plan(model, ids, keep=[], **asked)))
    with pytest.raises(vramfit.PlanError, match="only the model's own code can call") as refused:
        rewritten.apply(model)
    assert "test_apply.py" in refused.value.message


def test_a_longer_sequence_than_planned_is_warned_about(captures):
    plan = planned(captures).start
    plan = dataclasses.replace(plan, settings={**plan.settings, "sizes": {"batch": BATCH, "seq": 8}})
    model, inputs, targets = blocks()
    with pytest.warns(UserWarning, match="a sequence of 8, and found one of 12"):
        plan.apply(model, loss=loss_function).step(inputs, targets)


def test_every_trick_on_live_models_is_listed():
    for found in pkgutil.iter_modules(tricks.__path__, f"{tricks.__name__}."):
        importlib.import_module(found.name)
    defined = {kind for kind in LiveTrick.__subclasses__() if kind.__module__.startswith(tricks.__name__)}
    assert defined == {type(trick) for trick in tricks.TRICKS}


def test_a_new_trick_needs_only_its_line_in_the_table(captures, monkeypatch):
    entered = []

    @contextlib.contextmanager
    def noting(device):
        entered.append(device.type)
        yield

    class Noting(LiveTrick):
        def apply(self, applied):
            applied.forward_contexts.append(noting)
            return [lambda: entered.append("undone")]

    monkeypatch.setattr("vramfit.applying.applied.TRICKS", (*tricks.TRICKS, Noting()))
    model, inputs, targets = blocks()
    with planned(captures).start.apply(model, loss=loss_function) as applied:
        applied.step(inputs, targets)
    assert entered == ["cpu", "undone"]


def test_a_larger_batch_than_planned_is_told(captures):
    model, inputs, targets = blocks()
    applied = planned(captures, batch=4).start.apply(model, loss=loss_function)
    with pytest.warns(UserWarning, match="batch of 4, and found one of 32"):
        applied.step(inputs, targets)


def test_a_plan_for_a_module_is_simulated_as_apply_copies_its_batches():
    model, inputs, targets = blocks()
    plans = vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram="1GiB")
    assert plans.start.settings["inputs"] == "fresh" and ".to(device)" in plans.start.code
    assert vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram="1GiB", inputs_are="kept").start.settings["inputs"] == "kept"


def test_a_plan_for_a_model_on_the_gpu_does_not_count_on_allocator_settings(monkeypatch):
    model, inputs, targets = blocks(width=256)
    needed = vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram="1GiB").start.peak_reserved
    monkeypatch.setattr("vramfit.asking.live.is_on_gpu", lambda _: True)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    plans = vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram=int(needed * 0.8))
    assert len(plans) and plans.start.settings["inputs"] == "whole"
    assert all("expandable_segments:True" not in plan.settings["alloc_conf"] for plan in plans)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    plans = vramfit.plan(model, inputs, targets=targets, loss=loss_function, vram=int(needed * 0.8))
    assert plans.start.settings["alloc_conf"] == "expandable_segments:True"


def test_apply_says_that_allocator_settings_come_too_late_for_a_model_on_the_gpu(captures, monkeypatch):
    start = planned(captures, alloc_conf="expandable_segments:True").start
    changed = []
    monkeypatch.setattr("vramfit.applying.tricks.allocator.is_on_gpu", lambda _: True)
    monkeypatch.setattr("vramfit.applying.tricks.allocator._change", changed.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.warns(UserWarning, match="before the model is moved"):
        start.apply(blocks()[0], loss=loss_function).undo()
    assert changed == ["expandable_segments:True", "expandable_segments:False"]


def test_a_whole_batch_on_the_gpu_takes_more_than_one_micro_batch(captures):
    whole = planned(captures, batch=8, accumulate=64, inputs_are="whole").start
    kept = planned(captures, batch=8, accumulate=64, inputs_are="kept").start
    inputs = 4 * 8 * 12 * 96
    assert whole.peak_allocated - kept.peak_allocated >= 63 * inputs
