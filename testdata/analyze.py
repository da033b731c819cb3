"""Run the original profile_analyze many times in one process, with MegEngine's interpreter.

    PYTHON-WITH-MEGENGINE testdata/analyze.py PROFILE.json < ARGUMENTS

ARGUMENTS is a JSON list of command lines without the file. Prints a JSON list with an object for
each: `arguments`, `status` (the exit code), `error` (the last line of what went to stderr if it
failed, else empty) and `stdout`.
"""

import contextlib
import io
import json
import shlex
import sys
import traceback
import warnings

from megengine.tools import profile_analyze


def run(profile, arguments):
    out, err, status = io.StringIO(), io.StringIO(), 0
    sys.argv = ["profile_analyze.py"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            profile_analyze.main([profile, *shlex.split(arguments)])
        except SystemExit as ended:
            status = ended.code or 0
        except Exception:
            status = 1
            traceback.print_exc()
    error_line = err.getvalue().strip().split("\n")[-1] if status else ""
    return {"arguments": arguments, "status": status, "error": error_line, "stdout": out.getvalue()}


def main():
    warnings.simplefilter("ignore")
    profile = sys.argv[1]
    result = [run(profile, arguments) for arguments in json.load(sys.stdin)]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
