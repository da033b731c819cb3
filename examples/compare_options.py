"""Profile a model with and without an option, and compare: compare_options.py MODEL DEVICE."""

import sys

from webprofile.client import Site

model, device = sys.argv[1:]
with Site() as site:
    sets = {"plain": {}, "fast": {"fast_run": True}}
    tasks = site.submit(models=[model], workers=[device], plan="quick", option_sets=sets)
    for number, task in site.wait(tasks, timeout_s=600).items():
        print(f"#{number} {task['status']} {task['detail']}")
    for total in site.compare(tasks)["totals"]:
        times = [total["baseline_s"], total["others"][0]["time_s"]]
        print(total["key"], *times, total["others"][0]["verdict_text"])
    for row in site.operators(tasks[0], rows=5)["operators"]:
        if row["self_s"] is not None:
            print(f"{row['name']} {1000 * row['self_s']:.3f} ms")
    for artifact in site.artifacts(tasks[0]):
        site.download(tasks[0], artifact["name"], artifact["name"])
