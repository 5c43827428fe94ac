"""Scripts that say in other ways than usual where their tensors and kernels are: a default device, CUDA graphs."""

import pytest
from test_run import recorded
from vramfit.running.script import ScriptError


@pytest.fixture(autouse=True)
def _device_of_before():
    import torch

    yield
    torch.set_default_device(None)


def test_numbers_can_be_assigned_and_values_read_with_the_gpu_as_default_device(tmp_path):
    result = recorded(tmp_path, """
        import torch
        torch.set_default_device("cuda")
        layer = torch.nn.Linear(2, 3)
        points = torch.rand(20, 2)
        points[:, 1] = 0
        points[points > 0.5] = 1.0
        loss = layer(points)[torch.randint(0, 20, (5,))].sum()
        loss.backward()
        if torch.isfinite(loss).all() and layer(points).tolist() and (points > 3).any():
            print(loss)
        torch.multinomial(torch.ones(5), 2)
    """)
    assert result.recorder.has_reached_gpu()


def test_a_cuda_graph_runs_eagerly_and_the_answer_says_so(tmp_path):
    result = recorded(tmp_path, """
        import torch
        layer = torch.nn.Linear(8, 8).cuda()
        graph, x = torch.cuda.CUDAGraph(), torch.randn(4, 8, device="cuda")
        with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
            y = layer(x)
        graph.replay()
        torch.cuda.make_graphed_callables(layer, (x,))(x).sum().backward()
    """)
    causes = [cause for cause in result.recorder.causes if "CUDA graph" in cause]
    assert [cause.split(" ")[0].split(":")[1] for cause in causes] == ["5", "8"]


@pytest.mark.parametrize("text", [
    "torch.zeros(3, device='cuda:1')", "torch.nn.Linear(3, 3).to(1)", "torch.cuda.set_device(1)", "torch.zeros(3).cuda(torch.device('cuda', 2))",
])
def test_a_script_that_needs_another_gpu_than_the_first_is_told_so(tmp_path, text):
    with pytest.raises(ScriptError, match=r"asks for GPU [12], and `vramfit run` simulates one"):
        recorded(tmp_path, f"import torch\ntorch.zeros(3, device='cuda:0')\n{text}\n")


def test_a_complex_weight_that_is_written_into_a_part_gets_its_gradient(tmp_path):
    result = recorded(tmp_path, """
        import torch
        weight = torch.nn.Parameter(torch.randn(8, 8, dtype=torch.cfloat).cuda())
        spectrum = torch.zeros(8, 16, dtype=torch.cfloat, device="cuda")
        spectrum[:, :8] = torch.randn(8, 8, dtype=torch.cfloat, device="cuda") @ weight
        torch.fft.irfft(spectrum).sum().backward()
        assert weight.grad is not None
    """)
    assert result.end == "end"
