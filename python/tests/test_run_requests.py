"""The requests that ``vramfit run`` simulates for short scripts, held against those that an H200 recorded for the same calls."""

import json
import os
import pickle
import subprocess
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))


def requests(tmp_path, text):
    """What a script's simulated run allocates and frees, as signs with rounded sizes, and the operators that have no rule."""
    path, snapshot = tmp_path / "train.py", tmp_path / "snapshot.pickle"
    path.write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, ".."), "VRAMFIT_CUDNN": "off"}
    command = [sys.executable, "-m", "vramfit", "run", "--json", "--through-eval", "--gpu", "H200", "--snapshot", str(snapshot), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    with open(snapshot, "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    signs = {"alloc": "+", "free_completed": "-"}
    return [(signs[event["action"]], -(-event["size"] // 512) * 512) for event in events if event["action"] in signs], json.loads(done.stdout)["unmodelled"]


def spelled(text, sizes):
    """Requests from their spelling: ``+a`` allocates what ``sizes`` calls ``a``."""
    return [(word[0], sizes[word[1:]]) for word in text.split()]


def contains(found, wanted):
    """Whether the requests occur one after the other."""
    return any(found[at : at + len(wanted)] == wanted for at in range(len(found) - len(wanted) + 1))


# A sum over all dims but the channels goes one dim after the other.
_SUM = "+image +rows -image +channels -rows"
# Recorded in a MAML script: 5 pictures of 28 by 28 with 32 channels, in the backward pass through `autograd.grad(create_graph=True)`.
_SECOND_DERIVATIVE = f"""
    +whole +channels +channels +whole +whole {_SUM} -whole {_SUM}
    {_SUM} +whole {_SUM} -whole +channels +whole {_SUM} +channels +channels -channels -channels -channels -whole
    +whole +channels +whole +channels +whole -channels -whole -channels +channels +whole +channels +whole -channels -whole -channels
    +whole -whole -whole -whole -channels -channels -channels
    +whole +channels +whole {_SUM} +whole -channels -whole +whole -whole -channels -whole
    +channels +channels +whole {_SUM} +whole {_SUM} +whole +whole -whole -whole -channels -whole -channels +whole -whole -channels
    +whole -whole -channels {_SUM} -whole
    +whole +whole {_SUM} +whole {_SUM} +whole +whole -whole -whole -channels -whole -channels +whole -whole -whole
    +whole +whole -whole -whole
    -whole -channels -channels -whole -channels -channels -whole
"""


def test_the_second_derivative_of_batch_norm_makes_the_requests_of_an_h200(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        from torch.nn import functional as F
        x = torch.randn(5, 32, 28, 28, device="cuda", requires_grad=True)
        weight, bias = (torch.ones(32, device="cuda", requires_grad=True) for _ in range(2))
        mean, variance = torch.zeros(32, device="cuda"), torch.ones(32, device="cuda")
        y = F.relu(F.batch_norm(x, mean, variance, weight, bias, training=True))
        of_x, of_weight, of_bias = torch.autograd.grad((y * y).sum(), (x, weight, bias), create_graph=True)
        ((of_x * of_x).sum() + (of_weight * of_weight).sum() + (of_bias * of_bias).sum()).backward()
    """)
    sizes = {"whole": 5 * 32 * 28 * 28 * 4, "image": 32 * 28 * 28 * 4, "rows": 32 * 28 * 4, "channels": 512}
    assert contains(found, spelled(_SECOND_DERIVATIVE, sizes))
    assert without_rule == []


def test_the_input_gradient_of_batch_norm_in_evaluation_computes_the_deviation_again(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        from torch.nn import functional as F
        x = torch.randn(8, 300, 16, 16, device="cuda", requires_grad=True)
        norm = torch.nn.BatchNorm2d(300).cuda().eval()
        torch.autograd.grad(norm(x).sum(), x)
    """)
    # 300 numbers are 1,536 bytes, freed when the gradient has been made.
    assert contains(found, [("+", 1536), ("+", 8 * 300 * 256 * 4), ("-", 1536)])


def test_writing_into_the_result_of_an_instance_norm_is_writing_into_its_base(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        x = torch.randn(4, 16, 32, 32, device="cuda", requires_grad=True)
        layer = torch.nn.Sequential(torch.nn.InstanceNorm2d(16, affine=True), torch.nn.LeakyReLU(inplace=True)).cuda()
        (layer(x) * torch.rand(4, 16, 32, 32, device="cuda")).sum().backward()
    """)
    whole = 4 * 16 * 32 * 32 * 4
    # The gradient goes into one as large as the base, which is copied twice for the part that was written; then the function's own
    # result is copied back.
    wanted = [("+", whole), ("-", whole), ("+", whole), ("+", whole), ("+", whole), ("-", whole), ("-", whole), ("-", whole)]
    sizes = [request for request in found if request[1] == whole]
    assert contains(sizes, wanted), sizes


def test_filling_a_diagonal_is_writing_through_a_view(tmp_path):
    """Recorded in a contrastive loss: the scores of 240 rows with each other."""
    found, without_rule = requests(tmp_path, """
        import torch
        from torch.nn import functional as F
        def loss(rows, target):
            scores = rows @ rows.t() / 0.2
            scores.fill_diagonal_(float("-inf"))
            return F.cross_entropy(scores, target)
        rows = torch.randn(240, 128, device="cuda", requires_grad=True)
        loss(rows, torch.randint(0, 240, (240,), device="cuda")).backward()
    """)
    sizes = {"scores": 240 * 240 * 4, "diagonal": 1024, "number": 512, "library": 32 << 20}
    # The graph does not have the scores: nothing that was done to them needs them.
    assert contains(found, spelled("+scores +library +scores -scores +scores +number +number -scores", sizes)), found
    # The gradient is copied for the base, its diagonal is copied from that, and gets zeros.
    written = "+scores -scores -scores +scores +diagonal +diagonal -diagonal -diagonal -scores +scores -scores"
    assert contains(found, spelled(written, sizes)), found
    assert without_rule == []


def test_a_tensor_that_gets_other_data_frees_its_own_though_a_graph_has_it(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        noise = torch.zeros(3 << 20, device="cuda", requires_grad=True)
        loss = (noise * 2).sum()
        gradient = torch.autograd.grad(loss, noise)[0]
        noise.data = gradient * 3
        marker = torch.empty(77 << 10, device="cuda")
    """)
    until = found.index(("+", 4 * (77 << 10)))
    # The first noise and a temporary are gone; the gradient and the new noise are left.
    assert sum(1 if sign == "+" else -1 for sign, size in found[:until] if size == 4 * (3 << 20)) == 2


def test_a_module_that_the_script_drops_is_freed(tmp_path):
    found, _ = requests(tmp_path, """
        import copy, torch
        model = torch.nn.Linear(1000, 1000, device="cuda")
        for step in range(4):
            other = copy.deepcopy(model)
            loss = torch.nn.CrossEntropyLoss(weight=torch.ones(1000, device="cuda"))(other(torch.randn(8, 1000, device="cuda")), torch.zeros(8, device="cuda", dtype=torch.long))
            del loss
        marker = torch.empty(77 << 10, device="cuda")
    """)
    until = found.index(("+", 4 * (77 << 10)))
    assert sum(1 if sign == "+" else -1 for sign, size in found[:until] if size == -(-4 * 1000 * 1000 // 512) * 512) == 2


def test_gradients_of_a_tensor_written_through_a_view_are_followed_with_create_graph(tmp_path):
    _, without_rule = requests(tmp_path, """
        import torch
        x = torch.randn(8, 3, 16, 16, device="cuda", requires_grad=True)
        critic = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.InstanceNorm2d(4, affine=True), torch.nn.LeakyReLU(0.2, inplace=True)).cuda()
        gradient = torch.autograd.grad(critic(x).sum(), x, create_graph=True)[0]
        ((gradient.flatten(1).norm(dim=1) - 1) ** 2).mean().backward()
    """)
    assert without_rule == []


def test_a_gradient_penalty_with_dropout_makes_the_requests_of_an_h200(tmp_path):
    """Recorded in a synthesizer of tables: 400 rows through layers of 1024."""
    found, without_rule = requests(tmp_path, """
        import torch
        from torch import nn
        critic = nn.Sequential(
            nn.Linear(2280, 1024), nn.LeakyReLU(0.2), nn.Dropout(0.5), nn.Linear(1024, 1024), nn.LeakyReLU(0.2), nn.Dropout(0.5), nn.Linear(1024, 1),
        ).cuda()
        x = torch.randn(400, 2280, device="cuda", requires_grad=True)
        out = critic(x)
        gradient, = torch.autograd.grad(out, x, torch.ones(400, 1, device="cuda"), create_graph=True)
        ((gradient.norm(2, dim=1) - 1) ** 2).mean().backward()
    """)
    # The mask as numbers, then times a factor; the gradient times that; the slope of what the layer before gave.
    layer = "+hidden +hidden -hidden -hidden +hidden -hidden"
    sizes = {"hidden": 400 * 1024 * 4, "x": 400 * 2280 * 4, "library": 32 << 20}
    assert contains(found, spelled(f"+hidden +library +hidden {layer} +hidden +hidden {layer} +x", sizes))
    assert without_rule == []


def test_the_gradient_of_a_cross_entropy_keeps_what_its_own_gradient_needs(tmp_path):
    """Recorded in a MAML script: the last layer of 25 pictures. The logarithms of the softmax lead back to the logits, so that the
    gradient of the loss by them has a gradient too, for which it is saved."""
    found, without_rule = requests(tmp_path, """
        import torch
        from torch.nn import functional as F
        layer = torch.nn.Linear(1200, 5).cuda()
        rows = torch.randn(25, 1200, device="cuda", requires_grad=True)
        target = torch.arange(5, device="cuda").repeat(5)
        loss = F.cross_entropy(layer(rows), target)
        gradients = torch.autograd.grad(loss, [rows, *layer.parameters()], create_graph=True)
        torch.stack([gradient.norm() for gradient in gradients]).sum().backward()
    """)
    sizes = {"few": 512, "rows": 25 * 1200 * 4 + 320, "weight": 5 * 1200 * 4 + 64, "library": 32 << 20}
    assert contains(found, spelled("+few +few +few -few +few +few +few +rows +library +weight +few", sizes)), found
    # Its own gradient by the gradient, then by the logarithms. C++ frees what is between when a formula is computed.
    assert contains(found, spelled("+few +few +few +few -few -few -few +few +few +few +few +few -few -few -few -few", sizes)), found
    assert without_rule == []


def test_the_second_gradient_of_a_convolutions_weight_is_a_convolution_over_the_batch(tmp_path):
    """Recorded in a model of text: 64 lines of 64 characters."""
    found, without_rule = requests(tmp_path, """
        import torch
        layer = torch.nn.Conv1d(98, 384, 1).cuda()
        x = torch.randn(64, 98, 64, device="cuda", requires_grad=True)
        gradient, = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        gradient.square().sum().backward()
    """)
    sizes = {"whole": 64 * 384 * 64 * 4, "x": 64 * 98 * 64 * 4, "weight": 98 * 384 * 4}
    # Workspaces come and go in between.
    lasting = [request for request in found if request[1] in sizes.values()]
    assert contains(lasting, spelled("+whole +whole +x +weight -x -whole", sizes))
    assert without_rule == []


# A sum of long rows is split among multiprocessors.
_ROWS = "+column +parts +column -column -parts"
# Recorded in a WGAN: 32 pictures of 64 by 64 with 48 channels.
_OF_LAYER_NORM = f"""
    +whole +column +column +whole +whole +whole {_ROWS} -whole {_ROWS} {_ROWS} +whole {_ROWS} -whole
    +column +whole {_ROWS} +column +column -column -column -column -whole
    +whole +column +whole +column +whole -column -whole -column +column +whole +column +whole -column -whole -column
    -whole -whole -column -column -column -column -column -whole
    +column +column +whole {_ROWS} +whole {_ROWS} +whole +whole -whole -whole -column -whole -column +whole -whole -column -column
    +whole +weight -whole -whole
"""


def test_the_second_derivative_of_layer_norm_makes_the_requests_of_an_h200(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        norm, pool = torch.nn.LayerNorm([48, 64, 64]).cuda(), torch.nn.AvgPool2d(2)
        x = torch.randn(32, 48, 64, 64, device="cuda", requires_grad=True)
        gradient, = torch.autograd.grad(pool(norm(x)).square().sum(), x, create_graph=True)
        ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean().backward()
    """)
    sizes = {"whole": 32 * 48 * 64 * 64 * 4, "weight": 48 * 64 * 64 * 4, "column": 512, "parts": 2560}
    assert contains(found, spelled(_OF_LAYER_NORM, sizes))
    assert without_rule == []


def test_the_weights_of_a_copied_recurrent_module_are_put_together_for_each_call(tmp_path):
    found, _ = requests(tmp_path, """
        import copy, torch
        net = torch.nn.LSTM(768, 768, num_layers=2, batch_first=True).cuda()
        target = copy.deepcopy(net).requires_grad_(False)
        x = torch.randn(128, 10, 768, device="cuda")
        marker = torch.empty(77 << 10, device="cuda")
        with torch.no_grad():
            net(x)
            again = torch.empty(77 << 10, device="cuda")
            target(x)
    """)
    weights, marker = ("+", 2 * (2 * 4 * 768 * 768 + 2 * 4 * 768) * 4), ("+", 4 * (77 << 10))
    first, second = (at for at, request in enumerate(found) if request == marker)
    assert weights not in found[first:second]
    assert weights in found[second:]


def test_the_gradient_of_relu_lies_as_its_result_so_that_no_view_copies_it(tmp_path):
    """As in a recurrent network that takes its batch first, behind a linear layer."""
    found, _ = requests(tmp_path, """
        import torch
        layer = torch.nn.Linear(64, 768).cuda()
        hidden = torch.relu(layer(torch.randn(128, 31, 64, device="cuda"))).transpose(0, 1)
        hidden.contiguous().square().sum().backward()
    """)
    sizes = {"hidden": 128 * 31 * 768 * 4, "weight": 64 * 768 * 4}
    assert contains(found, spelled("+hidden -hidden +weight", sizes))
    assert not contains(found, spelled("+hidden -hidden +hidden -hidden +weight", sizes))


def test_a_backward_pass_for_some_leaves_makes_no_gradients_of_others(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        first, second = torch.nn.Linear(300, 400).cuda(), torch.nn.Linear(400, 500).cuda()
        second(first(torch.ones(8, 300, device="cuda"))).sum().backward(inputs=list(first.parameters()))
        assert second.weight.grad is None and first.weight.grad is not None
    """)
    sizes = [size for sign, size in found if sign == "+"]
    # The weights themselves, and the gradient of the first.
    assert sizes.count(400 * 500 * 4 // 512 * 512 + 512) == 1 and sizes.count(-(-300 * 400 * 4 // 512) * 512) == 2


def test_what_is_written_into_data_keeps_no_graph(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        average, layer = torch.zeros(512, 640, device="cuda"), torch.nn.Linear(640, 640).cuda()
        for _ in range(3):
            average.data.mul_(0.9).add_(layer(torch.ones(512, 640, device="cuda")).exp(), alpha=0.1)
            scaled = average / 2
            del scaled
        torch.zeros(7, 1000, device="cuda")
    """)
    live = 0
    for sign, size in found:
        live += size == 512 * 640 * 4 and (1 if sign == "+" else -1)
        if (sign, size) == ("+", 28160):
            break
    assert live == 1


# Recorded in the backward pass of a ResMLP whose last block is a reentrant checkpoint: the block runs again, then its own backward pass.
_REENTRANT = """
    +whole +whole -whole +whole +workspace +whole +whole -whole +whole +whole -whole +whole +wide
    +wide +whole +wide -wide +whole -whole +whole +whole -whole +whole +whole +row +sums
    +little -little -sums -whole -whole +wide +matrix +row +sums +little -little -sums -whole
    -wide +wide -wide -whole +wide -wide -wide +long +parts +little -little -parts +matrix
    +whole -wide -whole +row +sums +little -little -sums +whole +whole +row +sums +little
    -little -sums -whole -whole -whole +whole -whole +whole +whole +row +sums +little -little
    -sums -whole -whole +whole -whole +whole +tokens +column +sums +little -little -sums -whole
    -whole +row +whole +whole +row -whole -whole -whole +whole -whole -whole -whole
"""
_REENTRANT_SIZES = {
    "whole": 96 * 196 * 384 * 4, "wide": 96 * 196 * 1536 * 4, "sums": 57802752, "parts": 138412032, "little": 512, "row": 1536, "long": 6144,
    "matrix": 1536 * 384 * 4, "tokens": 154112, "column": 1024, "workspace": 1 << 20,
}


def test_a_reentrant_checkpoint_makes_the_requests_of_an_h200(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Affine(nn.Module):
            def __init__(self):
                super().__init__()
                self.alpha, self.beta = nn.Parameter(torch.ones(384)), nn.Parameter(torch.zeros(384))

            def forward(self, x):
                return self.alpha * x + self.beta

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2, self.token = Affine(), Affine(), nn.Linear(196, 196)
                self.mlp = nn.Sequential(nn.Linear(384, 1536), nn.GELU(), nn.Dropout(0.1), nn.Linear(1536, 384))
                self.g1, self.g2 = nn.Parameter(torch.ones(384)), nn.Parameter(torch.ones(384))

            def forward(self, x):
                x = x + self.g1 * self.token(self.norm1(x).transpose(1, 2)).transpose(1, 2)
                return x + self.g2 * self.mlp(self.norm2(x))

        patch, tail, head = nn.Conv2d(3, 384, 8, 8).cuda(), Block().cuda(), nn.Linear(384, 10).cuda()
        x = patch(torch.randn(96, 3, 112, 112).cuda()).flatten(2).transpose(1, 2) * 1.0
        x = checkpoint(tail, x, use_reentrant=True, preserve_rng_state=False)
        nn.functional.cross_entropy(head(x.mean(1)), torch.zeros(96, dtype=torch.int64).cuda()).backward()
        assert tail.g1.grad is not None and patch.weight.grad is not None
    """)
    assert contains(found, spelled(_REENTRANT, _REENTRANT_SIZES))
    assert without_rule == []


# Recorded in the backward pass of a neural ODE whose encoder's last state alone is used.
_OF_LAST_STATE = """
    +result +input +result +input +state +workspace -workspace -result -input
    +input +weights +workspace -workspace -input -result -input -state
"""


def test_a_recurrent_result_that_nothing_used_has_a_gradient_of_zeros(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        net = torch.nn.GRU(6, 200, batch_first=True).cuda()
        _, state = net(torch.randn(360, 30, 6, device="cuda"))
        state[-1].square().sum().backward()
    """)
    sizes = {"result": 360 * 30 * 200 * 4, "input": 259584, "state": 288256, "weights": 499200, "workspace": 45404672}
    assert contains(found, spelled(_OF_LAST_STATE, sizes))
    assert without_rule == []


def test_a_recurrent_result_in_the_order_of_time_gets_zeros_that_are_not_copied(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        net = torch.nn.LSTM(6, 200).cuda()
        _, (state, cells) = net(torch.randn(30, 360, 6, device="cuda"))
        cells[-1].square().sum().backward()
    """)
    sizes = {"result": 360 * 30 * 200 * 4, "input": 259584, "state": 288256}
    # Zeros for the result and for the hidden state, then the gradients of the input, the state and the cells.
    assert contains(found, spelled("+result +state +input +state +state", sizes))


# Recorded in a script that takes each sample's gradient: 96 samples with 120 tokens of 3000.
_OF_TABLES = """
    +index +index +index +index +pairs -pairs -index +tables +index +little +index +unique -unique -index
    +index +index +unique -unique +little +parts +sums -sums -parts -little -index -index -little -index -index -index -index
"""


def test_the_gradients_of_a_table_by_sample_are_those_of_one_long_table(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        from torch.func import grad, vmap
        from torch.nn import functional as F

        def loss(table, tokens):
            return F.embedding(tokens, table).mean(-2).square().sum()

        table, tokens = torch.randn(3000, 96, device="cuda"), torch.randint(0, 3000, (96, 120), device="cuda")
        vmap(grad(loss), in_dims=(None, 0))(table, tokens)
    """)
    sizes = {
        "index": 92160, "pairs": 204288, "tables": 96 * 3000 * 96 * 4, "little": 512, "unique": 1536, "parts": 101376, "sums": 12672 * 96 * 4,
    }
    assert contains(found, spelled(_OF_TABLES, sizes))
    assert without_rule == []


def test_the_gradient_of_a_tables_gradient_picks_rows_again(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        from torch.nn import functional as F
        table, tokens = torch.randn(3000, 640, device="cuda", requires_grad=True), torch.randint(0, 3000, (700,), device="cuda")
        gradient, = torch.autograd.grad(F.embedding(tokens, table, padding_idx=0).square().sum(), table, create_graph=True)
        gradient.square().sum().backward()
    """)
    sizes = {"rows": 700 * 640 * 4, "mask": 1024}
    assert contains(found, spelled("+rows +mask -mask", sizes))
    assert without_rule == []


# What an H200 requested in steps with sparse gradients.
_COALESCE = "+indices +indices +indices +sorting -sorting +runs -runs +values -indices -indices"
_MASK = "+one +values +few +values -values -one"


def test_sparse_gradients_are_added_and_make_the_updates_of_an_h200(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        table = torch.nn.Embedding(400_000, 32, sparse=True).cuda()
        values = torch.ones(5000, 32, device="cuda")
        # Every fourth row, four times.
        indices = (torch.arange(5000) // 4 * 4).cuda()
        table(indices).backward(values)
        table(indices).backward(values)
        table(indices).backward(values)
        table.zero_grad()
        table(indices).backward(values)
        torch.optim.Adagrad(table.parameters()).step()
        torch.optim.SparseAdam(list(table.parameters())).step()
    """)
    assert not without_rule
    rounded = {
        "indices": 5000 * 8, "sorting": 80_895, "runs": 1_535, "one": 4, "few": 1250 * 8, "values": 1250 * 128,
        "2i": 2 * 5000 * 8, "2v": 2 * 5000 * 128, "3i": 3 * 5000 * 8, "3v": 3 * 5000 * 128,
    }
    sizes = {name: -(-size // 512) * 512 for name, size in rounded.items()}
    # Indices and rows are put one after the other; the old rows go before the old indices.
    assert contains(found, spelled("+2i +2v", sizes)) and contains(found, spelled("+3i +3v -2v -2i", sizes))
    assert contains(found, spelled(f"{_COALESCE} +values -values {_MASK} +values -values", sizes))
    assert contains(found, spelled(f"{_COALESCE} {_MASK} -few +values {_MASK} -few +values +values -values", sizes))


def test_sparse_gradients_of_bags_padding_and_momentum_make_the_requests_of_an_h200(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        indices = (torch.arange(700) * 7 + 4).reshape(70, 10).cuda()
        values = torch.ones(70, 10, 32, device="cuda")
        padded = torch.nn.Embedding(5000, 32, sparse=True, padding_idx=3).cuda()
        padded(indices).backward(values)
        optimizer = torch.optim.SGD(padded.parameters(), lr=0.1, momentum=0.9)
        optimizer.step()
        optimizer.step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        padded(indices).backward(values)
        bags = torch.nn.EmbeddingBag(5000, 32, sparse=True).cuda()
        flat, starts = torch.arange(900).cuda(), torch.arange(0, 900, 3).cuda()
        bags(flat, starts).backward(torch.ones(300, 32, device="cuda"))
    """)
    assert not without_rule
    rounded = {
        "mask": 700, "one": 4, "places": 2 * 700 * 8, "scratch": 1023, "i": 700 * 8, "v": 700 * 128, "2i": 1400 * 8, "2v": 1400 * 128,
        "3i": 2100 * 8, "3v": 2100 * 128, "bags": 300 * 4, "each": 900 * 4, "rows": 900 * 128,
    }
    sizes = {name: -(-size // 512) * 512 for name, size in rounded.items()}
    # `indices.index(mask)` and the same for the gradient: counted, written down, picked.
    picks = "+one +one -one +places +scratch -scratch -one"
    padding = f"+mask {picks} +i -places {picks} +v -places -mask"
    assert contains(found, spelled(padding, sizes))
    # The momentum is a copy first, then a new product to which the rows of the gradient are added.
    momentum = "+v +i +i +v -v -i +2i +2v -v -i +2i +2v -2v -2i +3i +3v -2v -2i"
    assert contains(found, spelled(momentum, sizes))
    # What was emptied gets the rows in memory of its own.
    assert contains(found, spelled("-i -v", sizes)) and contains(found, spelled(f"{padding} +i +v -v -i", sizes))
    assert contains(found, spelled("+rows +bags +bags +each -bags -bags -each", sizes))


def test_operators_that_models_of_the_sweep_call_have_rules(tmp_path):
    found, without_rule = requests(tmp_path, """
        import torch
        x = torch.randn(4, 6, 256, device="cuda", requires_grad=True)
        mask = torch.ones(4, 6, dtype=torch.bool, device="cuda")
        values = torch.randn(24, 256, device="cuda", requires_grad=True)
        mixed = x.masked_scatter(mask.unsqueeze(-1).expand_as(x), values)
        y = (mixed * 2).masked_scatter_(mask.unsqueeze(-1), values)
        ordered, _ = torch.randn(5000, 3, device="cuda").sort(dim=0)
        places = torch.arange(6, device="cuda")
        places.unsqueeze_(0).t_().squeeze_(-1)
        for hit in (places > 2).nonzero():
            hit[0]
        for of_dim in torch.ones(3, 3, device="cuda").nonzero().unbind(1):
            places[of_dim]
        weights = torch.randn(4, 8, 3, 6, device="cuda").transpose(1, 2) @ torch.randn(6, device="cuda")
        torch.ones(2, device="cuda").repeat_interleave(3)
        y.sum().backward()
        torch.cuda.synchronize()
    """)
    assert without_rule == []
    # The kernel reads an expanded mask from contiguous memory: a running count, the mask, then the scan's scratch.
    elements = 4 * 6 * 256
    assert contains(found, [("+", elements * 4), ("+", elements * 8), ("+", elements)])
    # Values and places; then, as the rows are not the innermost dimension, the rows, values and places in an order in which they are.
    assert contains(found, [("+", 60416), ("+", 120320), ("+", 60416), ("+", 60416), ("+", 120320)])
