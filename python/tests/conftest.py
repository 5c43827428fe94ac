"""Makes the package importable from the checkout, and silences transformers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# torch comes with a cuDNN, whose answers would depend on the version that is installed.
os.environ["VRAMFIT_CUDNN"] = "off"

import torch  # noqa: E402

torch.set_num_threads(1)
