"""A terminal of 24 lines and 80 columns for scripts that ask for its size."""

import io
import os


def replace():
    """Changes `os.popen`."""
    original = os.popen

    def popen(command, *args, **kwargs):
        return io.StringIO("24 80\n") if command == "stty size" else original(command, *args, **kwargs)

    os.popen = popen
