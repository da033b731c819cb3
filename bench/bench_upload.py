"""Compare the upload speed of large files with one plain PUT of the same bytes to the same storage.

`python -m bench.bench_upload [--mb 64 256 1024] [--rounds 3]` starts a complete embedded site in a
temporary folder. Each size has three rows, and each row runs both uploads alternately:

- browser: the form in Chromium, from the click until the page of the queued task loads, including
  all requests to the site; against a PUT of the same file by the same page. The browser takes the
  times, because WebDriver is slower.
- client: `webprofile submit`, from the creation of the task until it is queued; against a PUT by
  Python's `http.client`.
- boto3: its upload in parts of the same size and number, without the site; against the PUT by
  `http.client`. It shows what the storage needs to join parts: rclone copies all bytes once more.

Page, client and storage share the cores of this machine. Without `--gbit` nothing else limits them,
so that processor time is compared. With `--gbit` everything runs in a network namespace whose
loopback device has that bandwidth, so that bytes sent and requests to the site are compared.
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

from agent.protocol.multipart import PART_BYTES
from bench.browser import chromium, log_in, measured
from bench.pairs import in_turn
from webprofile.client.api import Api
from webprofile.client.batchfile.local_files import LocalFile, look_at
from webprofile.client.login_file import Login
from webprofile.client.parts import PARALLEL, send_in_parts
from webprofile.client.submission import PARTS_FROM_BYTES
from webprofile.tests.site import EmbeddedSite, running_site

GOAL = 0.9
MB = 10**6
SETTLE_S = 1.0
LONGEST_S = 600
#: a device whose slot is occupied for a day, so that no agent downloads files meanwhile
_DEVICE = """
import datetime
from django.utils import timezone
from accounts.models import User
from tasks.models import Attempt
from tasks.tests.make import make_worker, occupy, set_last_heartbeat
tomorrow = timezone.now() + datetime.timedelta(days=1)
worker = make_worker("busy")
attempt = occupy(worker, User.objects.get(email="{email}"))
Attempt.objects.filter(pk=attempt.pk).update(lease_expires_at=tomorrow)
set_last_heartbeat(tomorrow, worker.pk)
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
#: environment variable that marks the process inside the network namespace
_MARK = "BENCH_UPLOAD_LINE"
#: a token bucket; `burst` must be at least the largest packet of a loopback device
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
#: stores the time of the click for the next page
_CLICKED = """
    document.getElementById("submit").addEventListener("click", () => {
        sessionStorage.setItem("clicked", performance.timeOrigin + performance.now());
    }, { capture: true });
"""
#: s from the click to the navigation; runs on the page of the task
_QUEUED_S = """
    return (performance.timeOrigin - Number(sessionStorage.getItem("clicked"))) / 1000;
"""


@dataclass
class UploadBenchmark:
    """A site with its clients, and the storage behind it."""

    site: EmbeddedSite
    browser: webdriver.Chrome
    api: Api
    worker: int
    storage: Any
    bucket: str

    def create_task(self, file: Path, md5: str | None) -> dict[str, Any]:
        """Create a task that waits for the upload of its model."""
        model = {"kind": "model", "name": file.name, "size_bytes": file.stat().st_size}
        model |= {"md5": md5} if md5 else {}
        body = {"worker": self.worker, "runtime_version": "1.13.0", "files": [model]}
        made: dict[str, Any] = self.api.post("tasks/", body, key=os.urandom(8).hex())
        return made

    def discard_task(self, task: int) -> None:
        """Delete a task and its stored files, so that storage is empty before the next upload."""
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
        _restart_with_bandwidth(args.gbit)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(_measure(Path(folder), args.mb, args.rounds))
    headers = ["MB", "from", "plain PUT, MB/s", "upload, MB/s", "ratio", "lowest", "highest", ""]
    print(tabulate(rows, headers=headers, floatfmt=(".0f", "", ".0f", ".0f", ".2f", ".2f", ".2f")))
    lowest = min(row[4] for row in rows if row[-1])
    line = f"{args.gbit:g} Gbit/s" if args.gbit else "no limit"
    print(f"line={line} lowest_ratio={lowest:.2f} goal={GOAL}")


def _restart_with_bandwidth(gbit: float) -> None:
    """Replace this process by one in a network namespace with a loopback of this bandwidth."""
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
            bench = UploadBenchmark(site, browser, api, worker, *_storage(site))
            for size in sizes:
                # large enough to be sent in parts
                file = _write_model(folder / f"model-{size}.mge", max(size * MB, PARTS_FROM_BYTES))
                yield _row("browser", file, rounds, (_browser_put, _browser_upload), bench)
                yield _row("client", file, rounds, (_client_put, _client_upload), bench)
                # boto3 is only a reference, so its row has no goal
                yield [*_row("boto3", file, rounds, (_client_put, _boto3_upload), bench)[:-1], ""]
                file.unlink()


def _storage(site: EmbeddedSite) -> tuple[Any, str]:
    """Return a boto3 client for the storage of the site, and the name of the bucket."""
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


def _write_model(path: Path, size_bytes: int) -> Path:
    """Write random bytes that begin as a model does, because the form checks it."""
    with path.open("wb") as file:
        for start in range(0, size_bytes, MB):
            file.write(os.urandom(min(MB, size_bytes - start)))
        file.seek(0)
        file.write(b"mgb0001")
    return path


#: uploads a file and returns the time in s
_UploadMethod = Callable[[UploadBenchmark, Path], float]


def _row(
    name: str,
    file: Path,
    rounds: int,
    methods: tuple[_UploadMethod, _UploadMethod],
    bench: UploadBenchmark,
) -> list[Any]:
    plain, upload = methods
    steps = (lambda: (plain(bench, file),), lambda: (upload(bench, file),))
    pairs = in_turn(steps, rounds, SETTLE_S)
    ratios = sorted(put_s / upload_s for _, put_s, upload_s in pairs)
    size_mb = file.stat().st_size / MB
    put, own = (size_mb / statistics.median(row[column] for row in pairs) for column in (1, 2))
    ratio = statistics.median(ratios)
    verdict = "met" if ratio >= GOAL else "MISSED"
    return [size_mb, name, put, own, ratio, ratios[0], ratios[-1], verdict]


def _form(bench: UploadBenchmark, file: Path) -> None:
    bench.browser.get(f"{bench.site.address}/tasks/new/?worker={bench.worker}")
    bench.browser.find_element(By.CSS_SELECTOR, "#new-task [name=model]").send_keys(str(file))


def _browser_put(bench: UploadBenchmark, file: Path) -> float:
    task = bench.create_task(file, "0" * 32)
    _form(bench, file)
    time_s = float(measured(bench.browser, _PUT, task["uploads"][0]["url"]))
    bench.discard_task(task["id"])
    return time_s


def _browser_upload(bench: UploadBenchmark, file: Path) -> float:
    _form(bench, file)
    # a user also pauses here; the page validates the form meanwhile
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
    bench.discard_task(int(bench.browser.current_url.split("/")[-2]))
    return time_s


def _client_put(bench: UploadBenchmark, file: Path) -> float:
    task = bench.create_task(file, "0" * 32)
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
    bench.discard_task(task["id"])
    return time_s


def _client_upload(bench: UploadBenchmark, file: Path) -> float:
    begin = time.perf_counter()
    local_file: LocalFile = look_at([file], unread_from_bytes=PARTS_FROM_BYTES)[file]
    task = bench.create_task(file, None)
    send_in_parts(bench.api, task["id"], task["uploads"][0], local_file)
    bench.api.post(f"tasks/{task['id']}/submit/", repeatable=True)
    time_s = time.perf_counter() - begin
    bench.discard_task(task["id"])
    return time_s


def _boto3_upload(bench: UploadBenchmark, file: Path) -> float:
    parts = TransferConfig(multipart_chunksize=PART_BYTES, max_concurrency=PARALLEL)
    begin = time.perf_counter()
    bench.storage.upload_file(str(file), bench.bucket, "bench/boto3", Config=parts)
    time_s = time.perf_counter() - begin
    bench.storage.delete_object(Bucket=bench.bucket, Key="bench/boto3")
    return time_s


if __name__ == "__main__":
    main()
