"""Makes crates/cudnn/data/cudnn-volumes.bin, the trees for three-dimensional layers, from what cuDNN answered about them:

    python3 pack_volumes.py validation/measured/plans-volumes.jsonl.xz

Needs numpy and rustc.
"""

import pack
import table as tables

if __name__ == "__main__":
    pack.main(tables.DATA / "cudnn-volumes.bin")
