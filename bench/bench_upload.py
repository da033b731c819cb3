"""How fast large files reach storage, beside one plain PUT of the same bytes to the same server.

`python -m bench.bench_upload [--mb 64 256 1024] [--rounds 3]` starts a whole embedded site in a
folder of its own. The browser's upload is that of the form in a real Chromium, from the click to
the queue (when the page leaves for the task's), with all that is asked of the site; beside it the
same page PUTs the same file, with nothing around. Both are timed by the browser: what steers it is
slower. The client's is that of `webprofile submit`, from the announcement to the queue; beside it
Python's `http.client` sends the file. Both kinds take turns.

Page, client and storage share this machine's cores. Without `--gbit` nothing else limits them: what
is compared is processor time. With it everything runs on a loopback line of that speed, in a
network namespace of its own, and what is compared are bytes on their way and questions to the site.

The third row of each size is boto3's own upload in parts of the same size, as many at once, with no
site around. S3 servers differ in what it costs to join parts: rclone copies all bytes once more,
which the plain PUT does not do.
"""

import argparse
import http.client
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from selenium import webdriver
from selenium.webdriver.common.by import By
from tabulate import tabulate

from agent.protocol.parts import PART_BYTES
from bench.browser import chromium, log_in, measured
from bench.pairs import in_turn
from webprofile.client.api import Api
from webprofile.client.batchfile.local_files import LocalFile, look_at
from webprofile.client.commands.submitting import PARTS_FROM_BYTES
from webprofile.client.login_file import Login
from webprofile.client.parts import PARALLEL, send_in_parts
from webprofile.tests.site import Site, running_site

GOAL = 0.9
MB = 10**6
SETTLE_S = 1.0
LONGEST_S = 600
#: a device whose slot is taken for a day: nobody fetches files while others are sent
_DEVICE = """
import datetime
from django.utils import timezone
from accounts.models import User
from tasks.models import Attempt
from tasks.tests.make import last_seen, make_worker, occupy
tomorrow = timezone.now() + datetime.timedelta(days=1)
worker = make_worker("busy")
attempt = occupy(worker, User.objects.get(email="{email}"))
Attempt.objects.filter(pk=attempt.pk).update(lease_expires_at=tomorrow)
last_seen(tomorrow, worker.pk)
print(worker.pk)
"""
_TOKEN = """
from accounts.tokens.access import issue_token
from accounts.models import User
owner = User.objects.get(email="{email}")
print(issue_token(owner, name="bench", scopes=["read", "write"], days=1)[1])
"""
_STORAGE = """
import json
from django.conf import settings
names = ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "BUCKET")
print(json.dumps({name: getattr(settings, f"S3_{name}") for name in names}))
"""
#: that this program runs on a line of its own
_MARK = "BENCH_UPLOAD_LINE"
#: a token bucket; what it lets pass at once must hold the largest packet of a loopback device
_LINE = """
ip link set lo up
tc qdisc add dev lo root tbf rate {gbit}gbit burst 1mb latency 50ms
exec "$@"
"""
_PUT = """
    const [url] = args;
    const file = document.querySelector("#new-task [name=model]").files[0];
    const begin = performance.now();
    await new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.open("PUT", url);
        request.onload = () => (request.status === 200 ? resolve() : reject(request.status));
        request.onerror = reject;
        request.send(file.slice(0, file.size, ""));
    });
    return (performance.now() - begin) / 1000;
"""
#: the moment of the click, for the next page
_CLICKED = """
    document.getElementById("submit").addEventListener("click", () => {
        sessionStorage.setItem("clicked", performance.timeOrigin + performance.now());
    }, { capture: true });
"""
#: on the task's page, whose time begins when the page before goes there
_QUEUED_S = """
    return (performance.timeOrigin - Number(sessionStorage.getItem("clicked"))) / 1000;
"""


@dataclass
class Bench:
    """A site, who uses it, and what was made."""

    site: Site
    browser: webdriver.Chrome
    api: Api
    worker: int
    storage: Any
    bucket: str

    def announced(self, file: Path, md5: str | None) -> dict[str, Any]:
        """A task that waits for its model."""
        model = {"kind": "model", "name": file.name, "size_bytes": file.stat().st_size}
        model |= {"md5": md5} if md5 else {}
        body = {"worker": self.worker, "runtime_version": "1.13.0", "files": [model]}
        made: dict[str, Any] = self.api.post("tasks/", body, key=os.urandom(8).hex())
        return made

    def end(self, task: int) -> None:
        """Nothing of it is needed any more; storage is emptied before the next one."""
        self.api.post(f"tasks/{task}/cancel/", repeatable=True)
        self.api.delete(f"tasks/{task}/")
        self.site.manage("sweep", "--once")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gbit", type=float, default=0.0, help="speed of the line (no limit)")
    args = parser.parse_args()
    if args.gbit and _MARK not in os.environ:
        _on_a_line(args.gbit)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(_measure(Path(folder), args.mb, args.rounds))
    headers = ["MB", "from", "plain PUT, MB/s", "upload, MB/s", "ratio", "lowest", "highest", ""]
    print(tabulate(rows, headers=headers, floatfmt=(".0f", "", ".0f", ".0f", ".2f", ".2f", ".2f")))
    lowest = min(row[4] for row in rows if row[-1])
    line = f"{args.gbit:g} Gbit/s" if args.gbit else "no limit"
    print(f"line={line} lowest_ratio={lowest:.2f} goal={GOAL}")


def _on_a_line(gbit: float) -> None:
    """Start anew in a network of our own whose only device is a loopback of this speed."""
    tools = {name: shutil.which(name) for name in ("unshare", "ip", "tc")}
    if missing := [name for name, path in tools.items() if path is None]:
        raise SystemExit(f"--gbit needs {', '.join(missing)} (packages util-linux and iproute2)")
    script = _LINE.format(gbit=gbit)
    program = [sys.executable, "-m", "bench.bench_upload", *sys.argv[1:]]
    os.environ[_MARK] = "1"
    unshare = [str(tools["unshare"]), "--map-root-user", "--net"]
    os.execv(unshare[0], [*unshare, "sh", "-e", "-c", script, "sh", *program])


def _measure(folder: Path, sizes: list[int], rounds: int) -> Iterator[list[Any]]:
    with running_site(folder / "site") as site, chromium() as browser:
        browser.set_script_timeout(LONGEST_S)
        token = site.manage("shell", "-v", "0", "-c", _TOKEN.format(**site.account)).split()[-1]
        device = site.manage("shell", "-v", "0", "-c", _DEVICE.format(**site.account))
        worker = int(device.split()[-1])
        log_in(browser, site.address, site.account)
        with Api(Login(site.address, token)) as api:
            bench = Bench(site, browser, api, worker, *_storage(site))
            for size in sizes:
                # not a megabyte less than is sent in parts
                file = _made(folder / f"model-{size}.mge", max(size * MB, PARTS_FROM_BYTES))
                yield _row("browser", file, rounds, (_browser_put, _browser_upload), bench)
                yield _row("client", file, rounds, (_client_put, _client_upload), bench)
                # a yardstick, no product of ours: no goal
                yield [*_row("boto3", file, rounds, (_client_put, _boto3_upload), bench)[:-1], ""]
                file.unlink()


def _storage(site: Site) -> tuple[Any, str]:
    """A client of boto3 for the site's storage, and the bucket."""
    options = json.loads(site.manage("shell", "-v", "0", "-c", _STORAGE))
    client = boto3.client(
        "s3",
        endpoint_url=options["ENDPOINT_URL"],
        aws_access_key_id=options["ACCESS_KEY_ID"],
        aws_secret_access_key=options["SECRET_ACCESS_KEY"],
        region_name=options["REGION"],
        config=Config(s3={"addressing_style": "path"}),
    )
    return client, options["BUCKET"]


def _made(path: Path, size_bytes: int) -> Path:
    """Random bytes; the first ones are a model's, since the form refuses what is none."""
    with path.open("wb") as file:
        for start in range(0, size_bytes, MB):
            file.write(os.urandom(min(MB, size_bytes - start)))
        file.seek(0)
        file.write(b"mgb0001")
    return path


_Way = Callable[[Bench, Path], float]


def _row(name: str, file: Path, rounds: int, ways: tuple[_Way, _Way], bench: Bench) -> list[Any]:
    plain, upload = ways
    steps = (lambda: (plain(bench, file),), lambda: (upload(bench, file),))
    pairs = in_turn(steps, rounds, SETTLE_S)
    ratios = sorted(put_s / upload_s for _, put_s, upload_s in pairs)
    size_mb = file.stat().st_size / MB
    put, own = (size_mb / statistics.median(row[column] for row in pairs) for column in (1, 2))
    ratio = statistics.median(ratios)
    verdict = "met" if ratio >= GOAL else "MISSED"
    return [size_mb, name, put, own, ratio, ratios[0], ratios[-1], verdict]


def _form(bench: Bench, file: Path) -> None:
    bench.browser.get(f"{bench.site.address}/tasks/new/?worker={bench.worker}")
    bench.browser.find_element(By.CSS_SELECTOR, "#new-task [name=model]").send_keys(str(file))


def _browser_put(bench: Bench, file: Path) -> float:
    task = bench.announced(file, "0" * 32)
    _form(bench, file)
    time_s = float(measured(bench.browser, _PUT, task["uploads"][0]["url"]))
    bench.end(task["id"])
    return time_s


def _browser_upload(bench: Bench, file: Path) -> float:
    _form(bench, file)
    # as a hand needs it from the file to the button: the page asks about each change meanwhile
    time.sleep(SETTLE_S)
    form = bench.browser.current_url
    bench.browser.execute_script(_CLICKED)
    bench.browser.find_element(By.ID, "submit").click()
    until = time.monotonic() + LONGEST_S
    while bench.browser.current_url == form:
        if time.monotonic() > until:
            raise SystemExit(bench.browser.find_element(By.TAG_NAME, "main").text)
        time.sleep(0.05)
    time_s = float(bench.browser.execute_script(_QUEUED_S))
    bench.end(int(bench.browser.current_url.split("/")[-2]))
    return time_s


def _client_put(bench: Bench, file: Path) -> float:
    task = bench.announced(file, "0" * 32)
    place = urlsplit(task["uploads"][0]["url"])
    begin = time.perf_counter()
    storage = http.client.HTTPConnection(place.netloc, timeout=LONGEST_S, blocksize=1 << 20)
    with file.open("rb") as opened:
        length = {"Content-Length": str(file.stat().st_size)}
        storage.request("PUT", f"{place.path}?{place.query}", opened, length)
        answer = storage.getresponse()
        answer.read()
    storage.close()
    time_s = time.perf_counter() - begin
    if answer.status != http.HTTPStatus.OK:
        raise SystemExit(f"storage answered {answer.status}")
    bench.end(task["id"])
    return time_s


def _client_upload(bench: Bench, file: Path) -> float:
    begin = time.perf_counter()
    local_file: LocalFile = look_at([file], unread_from_bytes=PARTS_FROM_BYTES)[file]
    task = bench.announced(file, None)
    send_in_parts(bench.api, task["id"], task["uploads"][0], local_file)
    bench.api.post(f"tasks/{task['id']}/submit/", repeatable=True)
    time_s = time.perf_counter() - begin
    bench.end(task["id"])
    return time_s


def _boto3_upload(bench: Bench, file: Path) -> float:
    parts = TransferConfig(multipart_chunksize=PART_BYTES, max_concurrency=PARALLEL)
    begin = time.perf_counter()
    bench.storage.upload_file(str(file), bench.bucket, "bench/boto3", Config=parts)
    time_s = time.perf_counter() - begin
    bench.storage.delete_object(Bucket=bench.bucket, Key="bench/boto3")
    return time_s


if __name__ == "__main__":
    main()
