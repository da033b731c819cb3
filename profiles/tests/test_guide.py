"""The guide page; its code examples run unchanged."""

import html
import re
import subprocess

import pytest

PRELUDE = """
import sys
sys.path.insert(0, {examples!r})
import numpy as np, megengine
from profile_training import Trainer
data = megengine.Tensor(np.ones((1, 3, 32, 32), np.float32))
label = megengine.Tensor(np.zeros(1, np.int32))
step = Trainer().step
"""


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_guide_needs_no_login_and_is_translated(client, db, language):
    page = client.get("/profiles/guide/", headers={"Accept-Language": language}).text
    assert "memory_flow.svg" in page
    assert "StaticMemoryInfo.json" in page
    assert ("先看什么" in page) is (language == "zh-hans")


@pytest.mark.exhaustive
@pytest.mark.megengine
def test_the_code_on_the_page_writes_the_files_that_it_names(
    client, db, megengine_python, settings, tmp_path
):
    page = client.get("/profiles/guide/").text
    blocks = re.findall(r'<pre class="code" id="guide-[a-z]+-code"[^>]*>(.*?)</pre>', page, re.S)
    assert len(blocks) == 3
    examples = str(settings.BASE_DIR / "examples")
    code = PRELUDE.format(examples=examples) + "\n".join(map(html.unescape, blocks))
    (tmp_path / "all.py").write_text(code)
    completed = subprocess.run(
        [megengine_python, "all.py"],
        cwd=tmp_path,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    endings = {path.name.split(".", 1)[1] for path in (tmp_path / "out").iterdir()}
    assert endings == {"chrome_timeline.json", "memory_flow.svg"}
    assert (tmp_path / "static.json").stat().st_size > 10_000
