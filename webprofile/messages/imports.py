"""User-facing messages for error codes of imported profiles, each with a suggested fix.

`name` is the file's, or what its owner calls the profile. The code behind `opened_` is one of
`profiles.formats.load_and_run`, `profiles.analysis` or `profiles.imports.uploads`.
"""

from typing import Any

from django.utils.translation import gettext_lazy as _

OPENED: dict[str, Any] = {
    "opened_none": _("Choose at least one file."),
    "opened_many_files": _(
        "At most %(limit)s files can be imported together. All must belong to one run."
    ),
    "opened_twice": _(
        "“%(name)s” and “%(other)s” are the same file. Choose a different file for each pass."
    ),
    "opened_too_many": _(
        "You have %(limit)s imported profiles, which is the limit. Delete one that you do not need."
    ),
    "opened_too_much": _(
        "With these files your imported profiles would exceed %(limit_mib)s MiB. Delete some "
        "that you do not need."
    ),
    "opened_form_large": _(
        "Without JavaScript at most %(limit_mib)s MiB can be uploaded. Enable JavaScript, or "
        "choose fewer files."
    ),
    "opened_name": _("A name must have 1 to %(limit)s characters."),
    "opened_gone": _("This upload has ended or was deleted. Import the profile again."),
    "attempt_has_result": _("This attempt has a result. See the result of task #%(task)s."),
    "attempt_recorded_nothing": _(
        "Attempt %(number)s has no profile or trace that can be opened, or has not ended yet."
    ),
    "opened_empty": _(
        "“%(name)s” is empty. MegEngine writes an empty profile if a name in the model is not "
        "ASCII. Use only ASCII names in the model, and profile it again."
    ),
    "opened_svg": _(
        "“%(name)s” is not a picture written by MegEngine. The only supported picture is "
        "memory_flow.svg, as written by megengine.utils.profiler."
    ),
    "opened_web_page": _(
        "“%(name)s” is a web page. If you saved it from a browser, download the JSON file itself."
    ),
    "opened_archive": _("“%(name)s” is compressed. Unpack it, and upload the JSON file."),
    "opened_lfs_pointer": _(
        "“%(name)s” is a Git LFS pointer, not the file. Run git lfs pull, and choose the file "
        "again."
    ),
    "opened_model": _(
        "“%(name)s” is a model. Start a task with it, or upload the JSON that load_and_run "
        "--profile wrote for it."
    ),
    "opened_array": _(
        "“%(name)s” is a numpy array. Import the output of a MegEngine profiler: the JSON of "
        "load_and_run --profile or get_profile(), chrome_timeline.json, memory_flow.svg or "
        "StaticMemoryInfo.json."
    ),
    "opened_pickle": _(
        "“%(name)s” contains Python objects (a pickle), which are never loaded. Write the "
        "profile with json.dump: the result of get_profile() is JSON-serializable."
    ),
    "opened_picture": _(
        "“%(name)s” is a picture. Import the output of a MegEngine profiler: the JSON of "
        "load_and_run --profile or get_profile(), chrome_timeline.json, memory_flow.svg or "
        "StaticMemoryInfo.json."
    ),
    "opened_log": _("“%(name)s” is a log. Upload the file that load_and_run --profile wrote."),
    "opened_list": _(
        "“%(name)s” is a JSON list without trace events. Import the output of a MegEngine "
        "profiler: the JSON of load_and_run --profile or get_profile(), chrome_timeline.json or "
        "StaticMemoryInfo.json."
    ),
    "opened_not_json": _(
        "“%(name)s” is not valid JSON, or is truncated. Copy the file again, or profile the "
        "model again."
    ),
    "opened_not_utf8": _(
        "“%(name)s” contains bytes that are not UTF-8. Save it as UTF-8 without other changes."
    ),
    "opened_utf16": _(
        "“%(name)s” is UTF-16, which PowerShell writes by default. Save it as UTF-8 without "
        "other changes."
    ),
    "opened_too_deep": _(
        "“%(name)s” is nested too deeply for a profile. Upload the file as MegEngine wrote it."
    ),
    "opened_not_a_profile": _(
        "“%(name)s” is JSON, but not a profile. Import the output of a MegEngine profiler: the "
        "JSON of load_and_run --profile or trace(profiling=True).get_profile(), which has "
        "“profiler” and “graph_exec”; chrome_timeline.json, which has “traceEvents”; or "
        "StaticMemoryInfo.json, which has “opr” and “chunk”."
    ),
    "opened_second_of_kind": _(
        "“%(name)s” and another file are of the same kind, but a run can have only one file of "
        "this kind. Import one of them separately, or remove it."
    ),
    "opened_not_svg": _(
        "“%(name)s” is not an SVG, or is truncated. Copy memory_flow.svg again as the Profiler "
        "wrote it."
    ),
    "opened_svg_refused": _(
        "“%(name)s” contains something that MegEngine does not write, such as XML entities or "
        "deep nesting, and was rejected. Upload memory_flow.svg as the Profiler wrote it."
    ),
    "opened_no_memory_flow": _(
        "“%(name)s” contains no tensor. Import memory_flow.svg as megengine.utils.profiler "
        "wrote it."
    ),
    "opened_trace_without_anything": _(
        "Nothing was recorded while the Profiler of “%(name)s” was active: no module was "
        "called, and no operator was dispatched to a device. Run the training step inside the "
        "Profiler."
    ),
    "opened_missing_key": _(
        "“%(name)s” lacks a required part. Upload the file as MegEngine wrote it, or profile "
        "the model again."
    ),
    "opened_bad_value": _(
        "“%(name)s” contains a value that cannot be read. Upload the file as MegEngine wrote "
        "it, or profile the model again."
    ),
    "opened_bad_columns": _("The stored data of “%(name)s” is damaged. Import the file again."),
    "opened_graph_unreadable": _(
        "The executed graph in “%(name)s” does not match its times. Upload the file as "
        "MegEngine wrote it, or profile the model again."
    ),
    "opened_too_large": _(
        "“%(name)s” or one of its strings is too large. Profile a smaller model, or fewer of "
        "its operators."
    ),
    "opened_too_heavy": _(
        "Reading “%(name)s” exceeded the time or memory limit. Profile a smaller model, or "
        "upload fewer passes."
    ),
    "opened_static_memory_missing": _(
        "“%(name)s” lacks a required part of a memory plan. Write it again with load_and_run "
        "--get_static_mem_info, and upload StaticMemoryInfo.json unchanged."
    ),
    "opened_static_memory_bad": _(
        "“%(name)s” has a value that is not valid in a memory plan. Write it again with "
        "load_and_run --get_static_mem_info, and upload StaticMemoryInfo.json unchanged."
    ),
    "opened_static_memory_twice": _(
        "In “%(name)s” a chunk or an operator appears twice. Each plan needs a separate folder: "
        "write the plan to an empty one, and upload StaticMemoryInfo.json unchanged."
    ),
    "opened_static_memory_operator": _(
        "“%(name)s” is incomplete: it has chunks of memory of operators that it does not list. "
        "Upload StaticMemoryInfo.json as load_and_run --get_static_mem_info wrote it."
    ),
    "opened_static_memory_many": _(
        "“%(name)s” has more than a million operators or chunks of memory, which is the limit. "
        "Write the plan of a smaller model."
    ),
    "opened_static_memory_zip": _(
        "“%(name)s” contains no memory plan. Upload the StaticMemoryInfo.json that load_and_run "
        "--get_static_mem_info wrote."
    ),
    "opened_graph_alone": _(
        "“%(name)s” is the graph of a memory plan. Import it together with the "
        "StaticMemoryInfo.json of the same folder."
    ),
    "opened_graph_of_another": _(
        "“%(name)s” does not belong to the memory plan. Import the graph.json and the "
        "StaticMemoryInfo.json of the same folder together."
    ),
    "opened_device_total_zero": _(
        "In “%(name)s” the device times add up to 0 because some are negative: the clock was "
        "set back. Profile the model again."
    ),
    "opened_device_total_zero_opencl": _(
        "In “%(name)s” all times on the device are 0. For OpenCL, call "
        "mgb::CompNode::enable_opencl_profile(true) before profiling."
    ),
    "opened_timed_out": _("Reading “%(name)s” timed out. Try again in a minute."),
    "opened_storage_lost": _(
        "A file of “%(name)s” is no longer in storage. Delete this profile and import it again."
    ),
    "opened_broke": _(
        "“%(name)s” could not be read. This is an error of the site and has been logged; try "
        "again later."
    ),
}
