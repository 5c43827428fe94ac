"""What scripts use around a training, recorded by ``vramfit run``: old types, loaders, checkpoints. The scripts check themselves."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import pytest

from vramfit.errors import VramfitError
from vramfit.running.cuda import Gpu
from vramfit.running.script import Limits, RecordedScript, ScriptError, record


@pytest.fixture
def run(tmp_path: Any, monkeypatch: Any) -> Any:
    """Records a script's text, run to its end."""
    monkeypatch.chdir(tmp_path)

    def recorded(text: str) -> RecordedScript:
        (tmp_path / "script.py").write_text(textwrap.dedent(text))
        return record("script.py", [], Gpu("NVIDIA H200", (9, 0), 150 << 30, 132), Limits(None, True))

    return recorded


def test_a_failing_assertion_of_a_script_is_an_error(run: Any) -> None:
    with pytest.raises(ScriptError, match="assert 1 == 2"):
        run("assert 1 == 2")


def test_old_types_make_tensors_on_the_gpu(run: Any) -> None:
    recorded = run("""
        import numpy, torch
        from torch.autograd import Variable
        Float, Long = torch.cuda.FloatTensor, torch.cuda.LongTensor
        x = Variable(torch.randn(8, 4).type(Float))
        assert x.is_cuda and x.type() == "torch.cuda.FloatTensor" and isinstance(x, Float) and not isinstance(x, Long)
        assert Float(2, 3).shape == (2, 3) and Float(numpy.ones((5, 2))).shape == (5, 2) and Float([1.0, 2.0]).is_cuda
        assert Long(numpy.arange(3)).dtype == torch.int64
        assert x.type("torch.FloatTensor").type() == "torch.FloatTensor"
        leaf = Variable(x, requires_grad=True)
        (leaf * 2).sum().backward()
        assert isinstance(leaf, Variable) and leaf.grad.shape == (8, 4) and x.grad is None
    """)
    assert recorded.end == "end"


def test_tensors_made_from_data_are_on_the_default_device(run: Any) -> None:
    recorded = run("""
        import numpy, torch
        torch.set_default_device("cuda")
        made = torch.tensor([1.0, 2.0]), torch.as_tensor([1.0]), torch.asarray([1]), torch.rand(2), torch.tensor(1.0, requires_grad=True)
        assert all(one.is_cuda for one in made)
        assert not any(one.is_cuda for one in (torch.tensor(1.0, device="cpu"), torch.from_numpy(numpy.zeros(3))))
        with torch.device("cpu"):
            host = torch.tensor([1.0])
            assert not host.is_cuda and not host.new_tensor([2.0]).is_cuda
        assert torch.tensor(host).is_cuda and torch.as_tensor(host).is_cuda
        torch.set_default_device(None)
        assert not torch.tensor([1.0]).is_cuda
    """)
    assert recorded.end == "end"


def test_weights_take_data_that_has_values(run: Any) -> None:
    run("""
        import torch
        layer = torch.nn.Linear(4, 4).cuda()
        layer.weight.data = torch.zeros(4, 4, device="cuda")
        recurrent = torch.nn.LSTM(4, 8).to("cuda")
        (layer(torch.ones(2, 4, device="cuda")).sum() + recurrent(torch.ones(1, 2, 4, device="cuda"))[0].sum()).backward()
        assert layer.weight.is_cuda and layer.weight.grad.shape == (4, 4)
    """)


def test_checkpoints_are_loaded_but_not_written(run: Any) -> None:
    run("""
        import os, shutil, torch
        model = torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(2, 4, device="cuda")).sum().backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "last.pt")
        shutil.copyfile("last.pt", "best.pt")
        loaded = torch.load("best.pt")
        assert loaded["epoch"] == 3 and loaded["model"]["weight"].is_cuda
        assert loaded["model"]["weight"].data_ptr() != model.weight.data_ptr()
        assert not torch.load("best.pt", map_location="cpu")["model"]["weight"].is_cuda
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        with open("whole.pt", "wb") as file:
            torch.save(model, file)
        with open("whole.pt", "rb") as file:
            assert torch.load(file, weights_only=False).weight.is_cuda
        assert os.path.exists("best.pt")
        os.remove("best.pt")
        assert not os.path.exists("best.pt") and os.path.exists("last.pt")
    """)
    assert not os.path.exists("last.pt") and not os.path.exists("whole.pt")


@pytest.mark.parametrize(("place", "workers", "few"), [("cpu", 0, True), ("cpu", 2, True), ("cuda", 0, False)])
def test_batches_made_on_the_host_are_not_recorded(run: Any, place: str, workers: int, few: bool) -> None:
    recorded = run(f"""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(64, device="{place}"))
        seen = [batch for batch, in DataLoader(data, batch_size=8, num_workers={workers})]
        assert len(seen) == 8 and seen[0].device.type == "{place}"
        assert "{place}" == "cuda" or seen[-1].tolist() == list(range(56, 64))
    """)
    calls = sum(1 for step in recorded.recorder.steps if step[0] == "call")
    assert (calls < 40) == few, calls


def test_annotations_are_the_scripts_own(run: Any) -> None:
    run("""
        import dataclasses
        @dataclasses.dataclass
        class Arguments:
            steps: int = 1
        assert dataclasses.fields(Arguments)[0].type is int
    """)


@pytest.mark.parametrize("make", [
    'torch.zeros(3, device="cuda", requires_grad=True)', 'torch.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)',
    'torch.ones(3, device="cuda").requires_grad_()', 'torch.randn(700).cuda().detach().requires_grad_()',
])
def test_tensors_with_values_are_trained(run: Any, make: str) -> None:
    run(f"""
        import torch
        weight = {make}
        optimizer = torch.optim.SGD([weight], lr=0.1)
        result = weight * 2
        assert weight.is_leaf and result.requires_grad and not result.is_leaf
        result.sum().backward()
        assert weight.grad is not None and weight.grad.is_cuda
        optimizer.step()
    """)


def test_a_leaf_of_the_host_gets_the_gradient_of_its_copy_on_the_gpu(run: Any) -> None:
    run("""
        import torch
        leaf = torch.ones(3, requires_grad=True)
        copy = leaf.cuda()
        assert copy.requires_grad and not copy.is_leaf
        copy.sum().backward()
        assert leaf.grad is not None and not leaf.grad.is_cuda and copy.grad is None
    """)


def test_values_of_distributions_on_the_gpu_are_taken_to_be_valid(run: Any) -> None:
    run("""
        import torch
        # torch.compile, which another test may have used in this process, turns the checks off.
        torch.distributions.Distribution.set_default_validate_args(True)
        logits = torch.nn.Linear(4, 2).cuda()(torch.ones(3, 4, device="cuda"))
        drawn = torch.distributions.Categorical(logits=logits)
        drawn.log_prob(drawn.sample()).sum().backward()
        try:
            torch.distributions.Normal(0.0, torch.tensor([-1.0]))
        except ValueError:
            pass
        else:
            raise AssertionError("values of the host are checked")
    """)


def test_gradients_of_functions_are_followed(run: Any) -> None:
    recorded = run("""
        import torch
        weight, inputs = torch.randn(50, 64, device="cuda"), torch.randn(80, 64, device="cuda")
        def loss(weight, inputs):
            return torch.nn.functional.linear(inputs, weight).sum()
        gradient = torch.func.grad(loss)(weight, inputs)
        assert gradient.shape == (50, 64) and gradient.is_cuda and weight.grad is None
    """)
    names = {recorded.session.rows[step[1]][0] for step in recorded.recorder.steps if step[0] == "call"}
    assert "aten.mm.default" in names, names


def test_batches_of_large_tensors_of_the_host_are_on_the_host(run: Any) -> None:
    recorded = run("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.randn(64, 3, 64, 64)), batch_size=16, num_workers=2)
        for images, in loader:
            assert not images.is_cuda and images.cuda().is_cuda
    """)
    copies = [step for step in recorded.recorder.steps if step[0] == "call" and recorded.session.rows[step[1]][0].startswith("aten.to.")]
    assert len(copies) == 4 and all(step[2][0] not in step[3] for step in copies), copies


def test_copies_of_models_have_no_gradients_and_buffers_take_a_tensor_more(run: Any) -> None:
    recorded = run("""
        import copy, torch
        model = torch.nn.BatchNorm1d(4).cuda()
        model(torch.ones(2, 4, device="cuda")).sum().backward()
        same = copy.deepcopy(model)
        assert model.weight.grad is not None and same.weight.grad is None
        assert same.running_mean.data_ptr() != model.running_mean.data_ptr()
    """)
    names = [recorded.session.rows[step[1]][0] for step in recorded.recorder.steps if step[0] == "call"]
    assert sum(name.startswith("aten.new_empty.") for name in names) == 3, names


def test_sparse_gradients_are_sparse_and_grow_with_each_backward_pass(run: Any) -> None:
    recorded = run("""
        import torch
        from torch.nn import functional as F
        table = torch.nn.Embedding(1000, 64, sparse=True).cuda()
        indices = torch.tensor([3, 3, 5, 7]).cuda()
        table(indices).sum().backward()
        gradient = table.weight.grad
        assert gradient.is_sparse and gradient.layout is torch.sparse_coo and gradient.shape == (1000, 64)
        assert gradient._nnz() == 4 and not gradient.is_coalesced() and gradient.coalesce()._nnz() == 3
        table(indices).sum().backward()
        assert table.weight.grad is gradient and gradient._nnz() == 8
        once = gradient.coalesce()
        assert once.is_coalesced() and once._values().shape == (3, 64) and once._indices().tolist() == [[3, 5, 7]]
        assert (-once).is_sparse and once.clone().is_coalesced() and not once.to_dense().is_sparse
        gradient.zero_()
        assert gradient._nnz() == 0
        # A dense use of the table makes the whole gradient dense.
        (table(indices).sum() + table.weight.sum()).backward()
        assert not table.weight.grad.is_sparse
    """)
    assert not any("sparse" in cause for cause in recorded.recorder.causes)


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad", "SparseAdam"])
def test_optimizers_take_sparse_gradients(run: Any, optimizer: str) -> None:
    recorded = run(f"""
        import torch
        bags = torch.nn.EmbeddingBag(1000, 64, mode="sum", sparse=True).cuda()
        optimizer = torch.optim.{optimizer}(list(bags.parameters()), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            bags(torch.arange(40).cuda(), torch.arange(0, 40, 4).cuda()).sum().backward()
            optimizer.step()
    """)
    names = [recorded.session.rows[step[1]][0] for step in recorded.recorder.steps if step[0] == "call"]
    assert ("vramfit.coalesce" in names) is (optimizer != "SGD")


@pytest.mark.parametrize("wrong", [
    'torch.optim.Adam(table.parameters()).step()',
    'torch.nn.utils.clip_grad_norm_(table.parameters(), 1.0)',
])
def test_what_takes_no_sparse_gradients_fails_as_with_a_gpu(run: Any, wrong: str) -> None:
    with pytest.raises(Exception, match="sparse gradients|SparseCUDA"):
        run(f"""
            import torch
            table = torch.nn.Embedding(1000, 64, sparse=True).cuda()
            table(torch.arange(40).cuda()).sum().backward()
            {wrong}
        """)


def test_weights_in_safetensors_are_loaded_but_not_written(run: Any) -> None:
    pytest.importorskip("safetensors")
    run("""
        import torch
        from safetensors.torch import load_file, save_file
        model = torch.nn.Linear(40, 40).cuda()
        addresses = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        assert len(addresses) == 2 and 0 not in addresses
        assert model.weight.untyped_storage().data_ptr() == model.weight[3:].untyped_storage().data_ptr()
        save_file(model.state_dict(), "model.safetensors")
        assert not load_file("model.safetensors")["weight"].is_cuda and load_file("model.safetensors", device="cuda")["bias"].is_cuda
    """)
    assert not os.path.exists("model.safetensors")


def test_lbfgs_goes_on_for_all_its_iterations(run: Any) -> None:
    recorded = run("""
        import torch
        model = torch.nn.Linear(40, 40).cuda()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
        calls = []
        def closure():
            optimizer.zero_grad()
            calls.append(1)
            loss = model(torch.ones(3, 40, device="cuda")).pow(2).sum()
            loss.backward()
            return loss
        optimizer.step(closure)
        assert len(calls) == 5, calls
        assert optimizer.param_groups[0]["tolerance_change"] == 1e-9
    """)
    assert recorded.steps == 1


def test_process_groups_are_refused_at_their_line(run: Any) -> None:
    with pytest.raises(VramfitError, match="script.py:3.* found init_process_group"):
        run("""
            import torch.distributed
            torch.distributed.init_process_group("nccl")
        """)


def test_streams_and_their_records_are_taken(run: Any) -> None:
    recorded = run("""
        import torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            batch = torch.ones(4, 4).to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)
        batch.record_stream(torch.cuda.current_stream())
        assert batch.is_cuda
    """)
    assert any("streams are taken to be one" in note for note in recorded.session.notes)


def test_gradients_of_each_sample_are_followed(run: Any) -> None:
    run("""
        import torch
        from torch.func import functional_call, grad, vmap
        model = torch.nn.Linear(8, 5).cuda()
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        def loss(weights, inputs, target):
            return torch.nn.functional.cross_entropy(functional_call(model, weights, (inputs.unsqueeze(0),)), target.unsqueeze(0))
        inputs, targets = torch.randn(6, 8, device="cuda"), torch.randint(5, (6,), device="cuda")
        found = vmap(grad(loss), in_dims=(None, 0, 0))(weights, inputs, targets)
        assert found["weight"].shape == (6, 5, 8) and found["bias"].is_cuda
    """)


def test_a_tensor_that_results_were_written_into_is_no_leaf(run: Any) -> None:
    run("""
        import torch
        layer = torch.nn.Linear(8, 8).cuda()
        outputs = torch.zeros(3, 4, 8, device="cuda")
        for at in range(1, 3):
            outputs[at] = layer(torch.ones(4, 8, device="cuda"))
        assert outputs.requires_grad and not outputs.is_leaf
        outputs[1:].sum().backward()
        assert outputs.grad is None and layer.weight.grad is not None
    """)


def test_what_is_written_into_data_leaves_the_tensor_without_a_gradient(run: Any) -> None:
    run("""
        import torch
        average, layer = torch.zeros(8, device="cuda"), torch.nn.Linear(8, 8).cuda()
        for _ in range(3):
            average.data.mul_(0.9).add_(layer(torch.ones(8, device="cuda")), alpha=0.1)
        assert not average.requires_grad and not (average / 2).requires_grad
    """)


def test_properties_of_a_gpu_are_all_there(run: Any) -> None:
    recorded = run("""
        import torch
        found = torch.cuda.get_device_properties(0)
        assert found.multi_processor_count == 132 and found.max_threads_per_multi_processor == 2048
        assert found.shared_memory_per_block_optin == 232448 and found.clock_rate == 0
        assert not hasattr(found, "nonsense")
    """)
    assert [note for note in recorded.session.notes if "clock_rate, which is not known here" in note]
