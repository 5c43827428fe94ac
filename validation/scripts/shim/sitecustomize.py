"""Python imports this file at its start when this folder is on PYTHONPATH: the script itself is not changed."""

import made_up

made_up.install()
