"""Operators that scripts call beside their models have rules."""

from test_run_requests import requests


def test_count_nonzero_sums_truth_values_and_detaching_in_place_needs_nothing(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        x = torch.ones(1000, 8, device="cuda", requires_grad=True)
        x.sum().backward()
        before = torch.ones(3000, device="cuda")
        x.grad.detach_()
        rows = x.detach().count_nonzero(dim=1)
        after = torch.ones(5000, device="cuda")
    """)
    assert without_rule == []
    between = found[found.index(("+", 12288)) + 1 : found.index(("+", 20480))]
    # Truth values, the sums, and the truth values as integers.
    assert between == [("+", 8192), ("+", 8192), ("+", 64000), ("-", 64000), ("-", 8192)]


def test_what_a_mask_chooses_of_a_large_tensor_is_known_without_its_values(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        logits = torch.randn(64, 1024, 1024, device="cuda", requires_grad=True)
        labels = torch.arange(64 * 1024).remainder(7).reshape(64, 1024).cuda()
        before = torch.ones(3000, device="cuda")
        chosen = logits[labels == 0]
        chosen.sum().backward()
    """)
    assert without_rule == []
    after = found[found.index(("+", 12288)) + 1 :]
    assert ("+", (64 * 1024 // 7 + 1) * 1024 * 4) in after


def test_a_sum_that_goes_into_a_part_of_a_tensor_has_its_values_there(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        sizes = torch.tensor([3, 4, 5]).cuda()
        ends = sizes.new_empty(4)
        ends[0] = 0
        torch.cumsum(sizes, dim=0, out=ends[1:])
        after = torch.ones(int(ends[-1]) * 1000, device="cuda")
    """)
    assert without_rule == []
    assert found[-1] == ("+", 48128)
