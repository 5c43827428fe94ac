//! What the source shows is a finding; what it leaves open is a note.

use vramfit_lint::{Document, Selection, Severity, check};

/// The codes found in a script, each with what is left open.
fn found(text: &str) -> Vec<String> {
    let document = Document::script(text.into());
    let selection = Selection::default();
    let checked = check(&document, &selection);
    let shows = |finding: &vramfit_lint::Finding| {
        assert_eq!(finding.is_shown(), finding.severity != Severity::Note, "{finding:?}");
        let open: Vec<&str> = finding.open.iter().map(|open| open.name()).collect();
        format!("{} {}", finding.code, open.join(" ")).trim_end().to_string()
    };
    checked.findings.iter().map(shows).collect()
}

#[test]
fn a_checkpoint_needs_a_network_that_the_file_places() {
    let load =
        "import torch\ndef load(net, path):\n    net.load_state_dict(torch.load(path))\n    torch.cuda.synchronize()\n";
    assert_eq!(found(load), ["VF010 place"]);
    assert_eq!(found(&format!("{load}net = make()\nnet.cuda()\nload(net, 'a')\n")), ["VF010"]);
}

#[test]
fn a_single_call_that_hands_its_result_on_may_be_differentiated() {
    let once = "import torch\nclass Scorer:\n    def score(self, x):\n        self.net.cuda().eval()\n        out = self.net(x)\n        return out\n";
    assert_eq!(found(once), ["VF003 graph amount"]);
    let ends = once.replace("return out", "return out.detach().cpu().numpy()");
    assert_eq!(found(&ends), ["VF003 amount"]);
    let each = once.replace(
        "        out = self.net(x)\n        return out\n",
        "        for part in x:\n            out = self.net(part)\n            print(out.item())\n",
    );
    assert_eq!(found(&each), ["VF003"]);
}

#[test]
fn what_a_loop_that_ends_early_collects_may_be_little() {
    let whole = "import torch\ndef run(net, loader):\n    net.cuda().eval()\n    kept = []\n    with torch.no_grad():\n        for x, y in loader:\n            kept.append(net(x.cuda()))\n    print(torch.cat(kept).mean().item())\n";
    assert_eq!(found(whole), ["VF016"]);
    let early = whole.replace(
        "            kept.append",
        "            if enough(kept):\n                break\n            kept.append",
    );
    assert_eq!(found(&early), ["VF016 amount"]);
}

#[test]
fn a_whole_data_set_is_a_note() {
    let text = "import torch\nX_train = torch.tensor(read()).cuda()\nnet = Net().cuda()\nfor i in range(0, 1000, 10):\n    loss = net(X_train[i:i + 10]).mean()\n    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n";
    assert_eq!(found(text), ["VF015 amount"]);
}
