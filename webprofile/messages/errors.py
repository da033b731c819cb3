"""User-facing messages for error codes, each with a suggested fix."""

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webprofile.errors import DomainError
from webprofile.messages.imports import OPENED

WORDINGS: dict[str, Any] = {
    **OPENED,
    # targets, quotas and the queue
    "worker_held": _(
        "%(worker)s is quarantined, because it failed its last health check (%(reason)s). Choose "
        "another device, or ask an administrator to check this one."
    ),
    "worker_retired": _(
        "%(worker)s has been retired. Choose another device; an administrator can register a new "
        "one."
    ),
    "worker_shut_out": _(
        "The token of %(worker)s was revoked. It accepts no tasks until it is enrolled again. "
        "Choose another device."
    ),
    "quota_reached": _(
        "You have %(live)s unfinished tasks; the limit is %(limit)s. Cancel some, wait until "
        "some have finished, or ask an administrator to raise your limit."
    ),
    "storage_full": _(
        "The files of your tasks use %(used_gib)s GiB of storage. With the files of this task, "
        "they would exceed your limit of %(limit_gib)s GiB. Delete tasks that you do not need, "
        "or ask an administrator to raise your limit."
    ),
    "priority_bad": _("The priority must be an integer from %(low)s to %(high)s."),
    "time_limit": _(
        "The time limit must be an integer number of seconds, at most %(limit)s for all passes "
        "of this plan. Leave it empty or enter 0 for the maximum."
    ),
    "time_limit_of_script": _("The time limit of a script is set in the fields of the script."),
    "character_bad": _(
        "This text contains the invisible character %(character)s, which breaks the line or "
        "changes how text is displayed. Remove it."
    ),
    "title_bad": _("A title must be one line of at most %(limit)s characters."),
    "not_waiting": _("The task is no longer waiting, so this cannot be changed. Reload the page."),
    "check_stays": _("A health check tests its own device, so it cannot be moved."),
    "check_latency": _(
        "Only the result of a model from a successful task can be checked. Repeat this task "
        "instead."
    ),
    "not_ended": _(
        "The task has not ended yet. Repeat it after it has ended, or submit the same request as a "
        "new task."
    ),
    "enough_nothing": _(
        "Nothing has been measured yet, so there is no result to keep. Wait for the first pass, "
        "or cancel the task."
    ),
    "enough_script": _(
        "A script has no passes, so it cannot be ended early. Wait until it ends, or cancel the "
        "task."
    ),
    "enough_old_agent": _(
        "The agent of this device cannot end a run early. Wait until the run ends, or cancel the "
        "task; the owner of the device can update the agent."
    ),
    "removed_by_rule": _(
        "“%(name)s” was removed by a retention rule on %(date)s. Such files are kept for "
        "%(days)s days."
    ),
    "task_gone": _("The task was deleted."),
    "task_unknown": _("This task does not exist, or you don’t have access."),
    "run_over": _("The run had already ended."),
    "baseline_none": _("No other task is pinned as the baseline of this model and device."),
    "baseline_result": _("Only a task that has succeeded can be a baseline."),
    "repeated_just_now": _("It has just been repeated as #%(task)s."),
    "target_and_worker": _(
        "Request either one device and a MegEngine version on it, or any matching device, not both."
    ),
    "target_bad": _("A target consists of labels (name and value), a pool and versions."),
    "target_label_bad": _(
        "A label has a name and a value, each of 1 to %(limit)s characters, such as chip=Kirin 990."
    ),
    "target_labels_many": _("At most %(limit)s labels can be requested."),
    "target_versions_bad": _(
        "“%(versions)s” is not a version range. Enter a range such as >=1.12,<1.14 or ==1.13.*"
    ),
    "target_no_device": _("You have no access to any device. Ask an administrator for access."),
    "target_label_unknown": _(
        "None of your devices has a label %(label)s. Available labels: %(labels)s."
    ),
    "target_label_unmet": _(
        "None of your devices has the label %(label)s=%(value)s. Devices with another value of "
        "%(label)s: %(devices)s."
    ),
    "target_labels_together": _(
        "None of your devices has all of these labels together: %(labels)s. Remove one."
    ),
    "target_pool_unknown": _(
        "The pool %(pool)s does not exist, or contains no device that you can use. Available "
        "pools: %(pools)s."
    ),
    "target_pool_unmet": _(
        "No device in the pool %(pool)s has these labels. Other devices that have them: "
        "%(devices)s."
    ),
    "target_versions_unmet": _(
        "No matching device has MegEngine %(versions)s. Available versions: %(devices)s."
    ),
    "target_away": _(
        "No matching device accepts tasks at the moment: %(devices)s. Relax the requirements, or "
        "wait until one of these devices accepts tasks again."
    ),
    # the API
    "malformed": _("The request cannot be read: the JSON or the URL is not valid."),
    "number_large": _("The number %(value)s is too large."),
    "not_authenticated": _("Log in, or send a token: Authorization: Bearer ..."),
    "token_invalid": _("The token is unknown, expired or revoked. Create another one."),
    "login_failed": _("E-mail, password or code is wrong, or the account is not active."),
    "login_throttled": _("Too many login attempts. Try again in a few minutes."),
    "code_needed": _("This account has a second factor: send its code or a recovery code too."),
    "forbidden": _("You do not have permission to do this."),
    "csrf_failed": _("The CSRF token is missing or wrong. Send the header X-CSRFToken."),
    "scope_missing": _(
        "The token does not have the scope “%(scope)s”, which this request needs. Create a "
        "token that has it."
    ),
    "token_not_here": _(
        "This action is not available with an access token. Log in with a password."
    ),
    "not_found": _("Not found, or you don’t have access. URLs end with a slash."),
    "method_not_allowed": _("This method is not allowed. See the Allow header."),
    "not_acceptable": _("No format in the Accept header is available."),
    "media_type_unknown": _("Send JSON: Content-Type: application/json."),
    "body_too_large": _("The body is larger than the limit of %(limit_kib)s KiB."),
    "invalid": _("Some fields are not valid; see “errors”."),
    "query_invalid": _("Some parameters of the URL are not valid; see “errors”."),
    "query_unknown": _("Unknown parameter “%(name)s”."),
    "limit_bad": _("limit must be an integer from 1 to %(limit)s."),
    "cursor_bad": _("Invalid cursor. Omit it to start from the first page."),
    "throttled": _("Too many requests. Try again in %(wait_s)s s."),
    "server_error": _("This is an error of the site and has been logged. Try again in a minute."),
    "idempotency_key_bad": _(
        "An Idempotency-Key must have 1 to %(limit)s printable ASCII characters."
    ),
    "idempotency_key_reused": _(
        "This Idempotency-Key was used for a different request. Use a new one."
    ),
    "idempotency_in_progress": _(
        "The first request with this Idempotency-Key is in progress. Try again in a moment."
    ),
    "cancel_which": _("Send either a list of tasks or all_mine."),
    "task_live": _("This task has not ended. Cancel it first."),
    "profile_not_yet": _(
        "Task #%(task)s has no profile yet: it is %(state)s. Try again when it has ended."
    ),
    "profile_never": _(
        "Task #%(task)s (%(state)s) has no profile. The page of the task gives the reason. To get "
        "a profile, repeat the task with a plan that has profiled passes."
    ),
    "profile_unusable": _("This profile cannot be analysed: %(detail)s"),
    "pass_unknown": _(
        "The result has no profiled pass with this number; passes are numbered from 1."
    ),
    "window_bad": _(
        "The time window needs a start and an end, and the start must be before the end."
    ),
    "comparison_choice": _("These results cannot be compared: %(detail)s"),
    # script tasks
    "scripts_not_allowed": _(
        "Users are not allowed to run scripts on %(worker)s. Choose another device, or ask an "
        "administrator."
    ),
    "scripts_not_offered": _(
        "The agent on %(worker)s does not run scripts: its owner does not allow them in "
        "agent.toml ([scripts], allow = true), or it has no working sandbox. Choose another "
        "device; the page of the device describes how to allow them."
    ),
    "script_needs_wheel": _(
        "MegEngine %(version)s on %(worker)s is a compiled load_and_run, which runs no scripts. "
        "Choose a version that is a Python package."
    ),
    "target_no_scripts": _(
        "None of your devices runs scripts. Ask an administrator to allow them on one."
    ),
    "one_program_wanted": _("Choose one program: a .py file, or a .zip with an entry point."),
    "model_is_script": _(
        "“%(name)s” is a program or an archive, not a model. Choose “Script” to run it, or "
        "upload the model that it dumps (.mge)."
    ),
    # files that are mistaken for models
    "model_is_lfs_pointer": _(
        "“%(name)s” is a Git LFS pointer, not the model. Run git lfs pull, and choose the file "
        "again."
    ),
    "model_is_zip": _(
        "“%(name)s” is a zip archive (for example a PyTorch or .npz file), not a MegEngine model. "
        "Dump the model with trace.dump and upload that file (.mge)."
    ),
    "model_is_pickle": _(
        "“%(name)s” is a Python pickle, such as a checkpoint of megengine.save, not a model. "
        "Dump the model with trace.dump and upload that file (.mge)."
    ),
    "model_is_npy": _(
        "“%(name)s” is an .npy array, not a model. Upload it as the data of an input, and the "
        "dumped model (.mge) as the model."
    ),
    "model_is_hdf5": _(
        "“%(name)s” is an HDF5 file, not a MegEngine model. Dump the model with trace.dump and "
        "upload that file (.mge)."
    ),
    "model_is_gzip": _("“%(name)s” is compressed with gzip. Unpack it, and upload the file in it."),
    "model_is_picture": _(
        "“%(name)s” is a picture, not a MegEngine model. Upload the file that trace.dump wrote "
        "(.mge)."
    ),
    "model_is_executable": _(
        "“%(name)s” is an executable program, not a MegEngine model. Upload the file that "
        "trace.dump wrote (.mge)."
    ),
    "model_is_json": _(
        "“%(name)s” is a JSON file, not a MegEngine model. Upload the file that trace.dump "
        "wrote (.mge)."
    ),
    "model_is_web_page": _(
        "“%(name)s” is a web page, not a model: the download may have failed. Download the model "
        "again."
    ),
    "model_is_text": _(
        "“%(name)s” is a text file, not a MegEngine model. Upload the file that trace.dump "
        "wrote (.mge); to run a program, choose “Script”."
    ),
    "model_unknown": _(
        "“%(name)s” is not a MegEngine model. Dump the model with trace.dump and upload that "
        "file (.mge)."
    ),
    "model_cut_short": _(
        "“%(name)s” is truncated: it has %(size)s bytes, but at least %(wanted)s are required. "
        "Copy or dump it again."
    ),
    "model_changed": _(
        "“%(name)s” is damaged: a program treated the model as text, and changed its line "
        "endings or its encoding. Copy it again as a binary file (Git: “*.mge binary” in "
        ".gitattributes)."
    ),
    "script_is_model": _(
        "“%(name)s” is a MegEngine model, not a program. Choose “Model” to profile it."
    ),
    "script_is_zip": _("“%(name)s” is a zip archive. Give it a name that ends in .zip."),
    "script_suffix": _("“%(name)s” is not a .py or .zip file. Upload the program as one of these."),
    "script_not_text": _(
        "“%(name)s” is not Python source: it contains bytes that are not UTF-8 text. Choose the "
        ".py file itself."
    ),
    "script_not_zip": _("“%(name)s” is not a zip archive. Pack it again, or upload a .py file."),
    "script_zip_empty": _("The archive “%(name)s” is empty. Pack the program into it."),
    "script_zip_damaged": _("The archive “%(name)s” is damaged. Pack it again."),
    "script_entry_missing": _(
        "Enter the name of the program in “%(name)s” that is to be run, such as train.py."
    ),
    "script_entry_unwanted": _(
        "“%(name)s” is the program itself; only a .zip has an entry point. Leave the entry "
        "point empty."
    ),
    "script_entry_bad": _(
        "“%(entry)s” is not an entry point. Enter the path of a .py file within the archive, such "
        "as train/main.py: letters, digits, dots, hyphens, spaces and underscores, without a "
        "leading dot or hyphen."
    ),
    "script_entry_not_there": _(
        "The archive “%(name)s” has no “%(entry)s”. Programs in it: %(names)s."
    ),
    "script_arguments_unreadable": _(
        "The arguments cannot be split: a quotation is not closed, or the last character is a "
        "backslash. Close the quotation, or put a backslash before a literal quotation mark or "
        "backslash."
    ),
    "script_arguments_bad": _(
        "A script can have at most %(limit)s arguments of at most %(length)s characters each."
    ),
    "script_formats": _("Choose what to record, each format once: %(choices)s."),
    "script_sample_rate": _(
        "Memory is recorded every n operators: an integer from 0 (never) to %(limit)s."
    ),
    "script_time_limit": _(
        "The time limit of a script must be an integer number of seconds up to %(limit)s, for "
        "all of its runs together; 0 or empty for the maximum."
    ),
    "script_takes_no_options": _("A script has no options of load_and_run. Omit them."),
    "script_takes_no_plan": _(
        "A script has no measuring plan: it is run once for each format. Omit the plan."
    ),
    "script_takes_no_inputs": _(
        "A script has no input variables. Upload data files without the name of a variable: "
        "they are placed in the folder of the program."
    ),
    "script_takes_no_seed": _(
        "A script has no seed, because it generates its own random values. Pass the seed as an "
        "argument."
    ),
    "pairing_missing": _("Only a paired comparison has files of several arms. Add “pairing”."),
    "pairing_arms": _("A paired comparison has 2 to %(limit)s arms, including the baseline."),
    "pairing_arm_unknown": _("The comparison has %(count)s arms, numbered from 0."),
    "pairing_script": _(
        "Scripts cannot be compared in pairs, because they have no iterations that could be timed "
        "in turns. Compare the results of two tasks instead."
    ),
    "pairing_target": _(
        "All arms of a paired comparison run on one device. Choose the device instead of a target."
    ),
    "pairing_option": _(
        "A paired comparison does not accept %(option)s, because it writes files, prints, or "
        "changes what an iteration does. Remove the option."
    ),
    "pairing_field": _("%(name)s must be between %(low)s and %(high)s."),
    "script_data_name": _(
        "“%(name)s” is not a valid name of an additional file. Rename it: at most 100 letters, "
        "digits, dots, hyphens and underscores, starting with a letter or a digit."
    ),
    "script_data_twice": _(
        "“%(name)s” occurs twice, or is the name that the program has on the device. Rename the "
        "file."
    ),
    # a request for a task
    "worker_unknown": _("Unknown device. Choose one from the list."),
    "health_check_impossible": _(
        "%(worker)s cannot be checked now: it is offline or does not accept tasks, a check is in "
        "progress, or it has no working MegEngine."
    ),
    "health_check_not_begun": _(
        "The health check of %(worker)s could not start: the device went offline, or storage "
        "does not respond. Request another check in a minute."
    ),
    "preset_name_bad": _("A preset needs a name of 1 to %(limit)s characters on one line."),
    "preset_empty": _("Set at least one option, then save the preset."),
    "preset_limit": _("You have %(limit)s presets, which is the limit. Delete one first."),
    "preset_unknown": _("You have no preset of options “%(name)s”."),
    "view_name_bad": _("A saved view needs a name of 1 to %(limit)s characters on one line."),
    "view_query_bad": _("Choose at least one filter, then save the view."),
    "view_limit": _("You have %(limit)s saved views, which is the limit. Delete one first."),
    "agent_not_built": _(
        "This site has not built its agent yet. The administrator of the server can run: make "
        "agent-bundle"
    ),
    "worker_disabled": _("%(worker)s does not accept tasks at the moment. Choose another device."),
    "worker_is_offline": _(
        "%(worker)s is offline. Choose another device, or wait until it is back online."
    ),
    "parts_not_here": _(
        "The storage of this site does not accept uploads in parts. Give the checksum of "
        "“%(name)s” when you request the upload."
    ),
    "parts_bad": _("“%(name)s” is uploaded in parts 1 to %(count)s. Request parts in this range."),
    "parts_unwanted": _("“%(name)s” is not uploaded in parts, or its upload is already complete."),
    "parts_restarted": _(
        "The storage lost the uploaded parts of “%(name)s”. Request new URLs and upload it again."
    ),
    "runtime_missing": _(
        "%(worker)s does not have MegEngine %(version)s. Choose a version that it has."
    ),
    "runtime_broken": _("MegEngine cannot be used on %(worker)s: %(problem)s"),
    "one_model_wanted": _("Choose one model file (.mge)."),
    "too_many_files": _("A task can have at most %(limit)s data files."),
    "file_name_bad": _("The file’s name is empty. Rename it."),
    "file_name_long": _("The file’s name is longer than %(limit)s characters. Rename it."),
    "file_name_path": _("“%(name)s” is a path. Enter the file name only."),
    "file_empty": _("“%(name)s” is empty (0 bytes). Choose a complete file."),
    "file_too_large": _("“%(name)s” is larger than the limit of %(limit_mib)s MiB."),
    "checksum_bad": _("The checksum of “%(name)s” is missing. Reload the page and try again."),
    "data_kind_unknown": _(
        "“%(name)s” is not a .npy, .json, .ppm or .pgm file. Save the array with numpy.save."
    ),
    "input_name_missing": _("Enter the input variable of the model for “%(name)s”."),
    "input_name_long": _("The name of an input variable can have at most %(limit)s characters."),
    "input_name_bad": _(
        "“%(input)s” cannot be given to a compiled load_and_run: it splits names at “:” and “;”. "
        "Choose a version that is a Python package, or rename the variable when you dump the model."
    ),
    "input_name_unprintable": _(
        "The name of an input variable contains control characters, invisible characters or "
        "unusual spaces. Rename the variable when you dump the model."
    ),
    "input_name_twice": _("Two files have the input variable “%(input)s”. Keep one of them."),
    "option_unknown": _("Unknown option “%(option)s”."),
    "option_not_bool": _("%(option)s must be on or off."),
    "option_not_int": _("%(option)s must be an integer."),
    "option_too_small": _("%(option)s must be at least %(limit)s."),
    "option_too_large": _("%(option)s must be at most %(limit)s."),
    "option_excluded": _("%(option)s and %(limit)s cannot be combined. Remove one of them."),
    "seed_bad": _("The seed must be a whole number from 0 to %(limit)s."),
    "too_many_inputs": _("A task can have at most %(limit)s inputs (files and values together)."),
    "inputs_too_long": _(
        "The numbers are too long: all inputs together can have at most %(limit)s characters. "
        "Upload long inputs as .npy files."
    ),
    "input_name_empty": _("Enter the name of an input variable of the model."),
    "input_two_ways": _(
        "“%(input)s” has numbers, so a shape or type cannot be given. Remove the numbers, or the "
        "shape and type."
    ),
    "shape_bad": _(
        "A shape is 1 to %(limit)s positive integers separated by commas, such as 1,3,224,224."
    ),
    "shape_large": _(
        "Random values of this shape exceed %(limit_mib)s MiB. Choose a smaller shape."
    ),
    "dtype_unknown": _("Unknown data type. Choose one of: %(choices)s."),
    "dtype_not_here": _(
        "A compiled load_and_run cannot read %(dtype)s. Choose one of: %(choices)s."
    ),
    "literal_empty": _("Enter numbers, for example 1,2.5 or [[1,2],[3,4]]."),
    "literal_bad": _(
        "“%(found)s” at character %(place)s is not a number. Enter numbers such as 1,2.5,-3e2. "
        "A decimal point needs digits on both sides."
    ),
    "literal_deep": _("The brackets are nested more than %(limit)s levels deep."),
    "literal_brackets": _(
        "Brackets or commas do not match. Enter numbers in a form such as [[1,2],[3,4]]."
    ),
    "literal_ragged": _(
        "The rows have different lengths: the first has %(first)s, row %(number)s has "
        "%(other)s. Make them equal; load_and_run would misread the numbers."
    ),
    "literal_range": _("%(value)s is too large for %(dtype)s."),
    "literal_fraction": _(
        "%(value)s is not an integer. If no number has a decimal point, all are read as int32. "
        "Write at least one of them with a decimal point, such as 1.0."
    ),
    "plan_field": _("“%(name)s” must be a number from %(low)s to %(high)s."),
    "plan_empty": _(
        "This plan measures nothing. Choose a latency pass or at least one profiled pass."
    ),
    "option_never": _("%(option)s is set by the agent. Remove it."),
    "option_not_number": _("%(option)s must be a number."),
    "option_not_text": _("%(option)s must be text."),
    "option_bad_choice": _("%(option)s must be one of: %(limit)s."),
    "option_bad_text": _("%(option)s has an invalid format. Its description shows the format."),
    "option_needs": _("%(option)s has no effect alone. Set one of these too: %(limit)s."),
    "option_needs_lite": _(
        "With a compiled load_and_run, %(option)s works only together with lite. Set lite too."
    ),
    "option_lite": _(
        "%(option)s cannot be combined with lite: load_and_run would fail or ignore it. Disable "
        "one of them."
    ),
    "option_mdl": _(
        "With the Python package, %(option)s cannot be combined with %(limit)s. Disable one of "
        "them."
    ),
    "option_alone": _(
        "%(option)s cannot be combined with profiling. Choose a custom plan with 0 profiled passes."
    ),
    "option_file_missing": _("%(option)s needs a file. Choose one."),
    "option_file_unwanted": _("%(option)s does not accept this file. Remove it."),
    "option_file_twice": _("Two files belong to %(option)s. Keep one of them."),
    "option_warmup": _(
        "With %(option)s the first iteration computes nothing. Set warmup_iter to at least "
        "%(limit)s."
    ),
    "option_core_twice": _("%(option)s contains a core twice. Give each thread a different core."),
    "option_core_missing": _("%(option)s: runs on this device may use the cores %(limit)s."),
    "option_target": _(
        "%(option)s must match the device that the model runs on (%(limit)s). Change this option, "
        "or the device in “Device and threads”."
    ),
    "option_no_profile": _(
        "This load_and_run was built without JSON support and writes no profile. Choose a "
        "custom plan with 0 profiled passes, or another runtime."
    ),
    "option_thread_count": _("%(option)s must contain one core for each of the %(limit)s threads."),
    "option_wheel": _(
        "%(option)s needs a compiled load_and_run; this runtime is the Python package. Choose "
        "another runtime."
    ),
    "option_flag": _(
        "This version of load_and_run does not support %(option)s. Choose a newer MegEngine."
    ),
    "option_cuda": _(
        "%(option)s needs CUDA, which this device or its MegEngine does not have. Choose "
        "another device."
    ),
    "option_tensorrt": _(
        "%(option)s needs TensorRT, which this device or its MegEngine does not have. Choose "
        "another device."
    ),
    "option_opencl": _(
        "%(option)s needs OpenCL, which this MegEngine was built without. Choose another device."
    ),
    "option_amd": _(
        "%(option)s hangs on AMD processors, such as that of this device. Choose a device with "
        "another processor."
    ),
    "option_library": _(
        "%(option)s: the owner of this device provides no operator library. Ask the owner for one, "
        "or choose another device."
    ),
    "source_unknown": _(
        "Task #%(task)s does not exist, or you don’t have access. Choose another, or upload a file."
    ),
    "file_unknown": _("The file to reuse was not found. Upload it instead."),
    "source_missing": _(
        "Task #%(task)s has no %(name)s, or has not finished. Choose another, or upload a file."
    ),
    "bad_request": _("The request could not be read. Reload the page and try again."),
    # an upload
    "upload_missing": _(
        "Not in storage yet: %(files)s. Upload them again; the other files are kept."
    ),
    "upload_damaged": _(
        "Damaged during the upload (size or checksum differs): %(files)s. Upload them again."
    ),
    # a comparison
    "comparison_large": _(
        "These results have %(operators)s operators in total; the page can compare at most "
        "%(limit)s. Remove some results, or use manage.py compare_profiles."
    ),
    # what the headers of uploaded data say
    "input_not_npy": _("“%(name)s” is not an .npy file. Save the array with numpy.save."),
    "input_zip": _(
        "“%(name)s” is a zip archive (.npz). Save each array separately with numpy.save and add "
        "one file per input."
    ),
    "input_pickled": _(
        "“%(name)s” contains Python objects (a pickle), which are never loaded. Save an array "
        "of numbers with numpy.save."
    ),
    "input_version": _(
        "“%(name)s” has the unknown npy format version %(version)s. Save the array again with "
        "numpy.save."
    ),
    "input_header": _("The header of “%(name)s” cannot be read. Save it again with numpy.save."),
    "input_header_long": _(
        "The header of “%(name)s” has %(length)s bytes; at most %(limit)s are read. Save the array "
        "again with numpy.save."
    ),
    "input_structured": _(
        "“%(name)s” has a structured type. Save each of its fields as an array of numbers."
    ),
    "input_not_numbers": _(
        "“%(name)s” contains %(dtype)s. Inputs must be numbers: convert the array."
    ),
    "input_no_type": _(
        "“%(name)s” contains %(dtype)s, which MegEngine does not support. Save it as "
        "%(instead)s, for example with astype."
    ),
    "input_dtype_not_here": _(
        "“%(name)s” contains %(dtype)s, which a compiled load_and_run cannot read. Save it as "
        "one of %(choices)s, or choose a runtime that is the Python package."
    ),
    "input_given_twice": _(
        "Two sources provide the input variable “%(input)s” (%(files)s). Keep one of them."
    ),
    "input_no_axes": _(
        "“%(name)s” is a single number without axes. Save it with at least one axis, for "
        "example with numpy.atleast_1d."
    ),
    "input_many_axes": _(
        "“%(name)s” has %(axes)s axes; MegEngine supports at most %(limit)s. Reshape the array."
    ),
    "input_no_numbers": _(
        "“%(name)s” has the shape %(shape)s and contains no numbers. Every axis must be at least 1."
    ),
    "input_cut_short": _(
        "“%(name)s” is truncated: %(promise)s needs %(wanted)s bytes, but the file has %(size)s. "
        "Save and upload it again."
    ),
    "input_trailing": _(
        "“%(name)s” has %(extra)s extra bytes after its array (%(promise)s). Save the array "
        "again with numpy.save."
    ),
    "input_picture": _(
        "“%(name)s” is not a binary PPM (P6) or PGM (P5) picture. Convert it, or upload the "
        "input as .npy."
    ),
    "input_picture_depth": _(
        "“%(name)s” has the maximum value (maxval) %(most)s; only 8-bit pictures (maxval 1 to "
        "255) are supported. Convert it, or upload the input as .npy."
    ),
    "input_json": _(
        "“%(name)s” is not valid JSON for load_and_run (%(problem)s). It must be an object that "
        "maps the name of each input to its shape, type and raw."
    ),
    "input_json_large": _(
        "“%(name)s” is larger than %(limit_mib)s MiB. Upload large inputs as .npy files."
    ),
    "input_json_deep": _("“%(name)s” is nested too deeply. Each input has shape, type and raw."),
    "input_json_twice": _("In “%(name)s” the key “%(input)s” occurs twice in one object."),
    "input_json_name": _(
        "In “%(name)s” an input has the name %(input)s. Names have 1 to %(limit)s printable "
        "characters; a compiled load_and_run accepts no “:” or “;”. Rename the input when you "
        "dump the model."
    ),
    "input_json_shape": _(
        "In “%(name)s” the shape of the input “%(input)s” is not a list of positive integers."
    ),
    "input_json_count": _(
        "“%(name)s” describes %(count)s inputs; the number must be 1 to %(limit)s."
    ),
    "input_json_type": _(
        "In “%(name)s” the input %(input)s has the type %(type)s. Use one of: %(kinds)s."
    ),
    "input_json_numbers": _(
        "In “%(name)s” the shape of the input %(input)s needs %(wanted)s numbers, but raw is not "
        "a flat list of that length. Write all numbers into one list."
    ),
    "input_json_range": _(
        "In “%(name)s”, a value of the input “%(input)s” is out of the range of %(dtype)s."
    ),
    "input_json_fraction": _(
        "In “%(name)s”, a value of the input “%(input)s” is not an integer, but its type is "
        "%(dtype)s."
    ),
    "file_gone": _(
        "“%(name)s” is no longer in storage. Start a new task and choose the file again."
    ),
    "file_not_uploaded": _(
        "The upload of “%(name)s” was never completed. Start a new task and choose the file again."
    ),
    "file_changed": _(
        "“%(name)s” in storage differs from the uploaded file in size or checksum. Start a new "
        "task and choose the file again."
    ),
    "dump_missing": _(
        "Task #%(task)s has no dump of all variables. Run it again with the option bin_io_dump."
    ),
    "dump_unreadable": _(
        "A dump is damaged or not valid. Repeat its task with the option bin_io_dump. If that "
        "does not help, tell an administrator (%(problem)s)."
    ),
    "dumps_busy": _("These dumps are being compared. Reload the page in a few seconds."),
    "dump_large": _(
        "These dumps are too large for this page (at most %(packed_mib)s MiB each, unpacked "
        "%(unpacked_mib)s MiB). Download both and compare them with manage.py "
        "compare_binary_iodump."
    ),
    "not_initiated": _("This task has ended. Start a new one."),
    "storage_unreachable": _("Object storage does not respond. Try again in a minute."),
    "redis_unreachable": _(
        "Redis does not respond. Try again in a minute; “manage.py doctor” shows what is missing."
    ),
    "database_unreachable": _(
        "The database does not respond or has no tables. Check DATABASE_URL and run “manage.py "
        "migrate”."
    ),
    "reading_stopped": _("The profile is being read. Try again in a minute."),
    "operator_not_drawn": _("This operator was not executed, so the graph does not show it."),
    "object_missing": _("The file is no longer in storage."),
    "object_too_large": _("The file is too large to be shown; download it instead."),
    "operators_none": _(
        "None of the files of this profile has operators. Import them together with a profile of "
        "the same run. The page of this profile shows what the files contain."
    ),
    "profile_damaged": _("The stored profile is damaged. Download the raw profile instead."),
    "profile_outdated": _(
        "This result was computed by another version of this site and is being recomputed from "
        "its raw files. Reload the page in a moment."
    ),
    "pairs_none": _(
        "Task #%(task)s is not a paired comparison, so it has no pairs. Request its profile "
        "instead."
    ),
    "pairs_unprofiled": _(
        "The operators of this profile were not compared in pairs, so there are no differences "
        "to show. Choose another colouring."
    ),
    "memory_flow_none": _(
        "This profile has no memory_flow.svg. Import it together with the memory_flow.svg of "
        "the same run."
    ),
    "static_memory_none": _(
        "None of the files of this profile is a memory plan. Run the task with "
        "--get_static_mem_info, or import its StaticMemoryInfo.json."
    ),
    "trace_none": _(
        "This is not a trace of a dynamic graph. Request its statistics and operators instead."
    ),
    "cut_range": _(
        "The range of a trace is given in seconds, and its end must not be before its start."
    ),
    "cut_lane": _("The trace has no thread %(number)s. Choose one of the threads in its overview."),
    "cut_large": _(
        "Choose a shorter range, or fewer threads: this range has at least %(events)s events and "
        "about %(size_mib)s MiB of the file; the limit is %(limit_mib)s MiB."
    ),
    "cut_heavy": _(
        "This part of the trace needs too much time or memory. Choose a shorter range, or fewer "
        "threads."
    ),
    "cut_busy": _("Other parts of traces are being prepared. Try again in a few seconds."),
    "cut_unready": _("The trace is being prepared for the timeline. Try again in a minute or two."),
    "export_busy": _("Other large exports are in progress. Try again in a few seconds."),
    "export_heavy": _(
        "This export needs too much time or memory. Filter the table, or choose another format."
    ),
    "export_many": _(
        "%(limit)s of your large exports are in progress or being downloaded. Try again in a "
        "few seconds."
    ),
    "export_question": _(
        "The table cannot be computed: %(detail)s Change the filters and try again."
    ),
    "export_unknown": _("Unknown format. Choose one from the menu of the result page."),
    # an access token
    "token_name": _("Give the token a name of 1 to 100 characters that says what it is for."),
    "token_scopes": _("Choose at least one permission that you have yourself."),
    "token_days": _("A token is valid for 1 to 365 days."),
    "token_limit": _("You have 50 usable tokens, which is the limit. Revoke one first."),
    # a share link
    "share_off": _("Share links are turned off on this site."),
    "share_ended": _("This link is no longer valid. Ask its sender for a new one."),
    "share_result": _(
        "Specify what the link shows: one task, one imported profile, or several "
        "profiles that are compared."
    ),
    "share_parts": _("Choose only parts that a link can show: log, inputs, model."),
    "share_days": _("A link is valid for 1 to %(limit)s days."),
    "share_limit": _("You have %(limit)s usable links, which is the limit. Revoke one first."),
    # an agent
    "code_unknown": _(
        "This enrolment code is unknown. Ask an administrator to create a new one on the device’s "
        "page."
    ),
    "code_used": _("This enrolment code was used or replaced. Ask an administrator for a new one."),
    "code_expired": _("This enrolment code has expired. Ask an administrator for a new one."),
    "token_unknown": _("This token is unknown. Enrol the device again: python -m agent enrol."),
    "token_revoked": _(
        "This token was revoked. Ask an administrator for an enrolment code and enrol again."
    ),
    # webhooks
    "webhook_url": _(
        "Enter a URL that starts with https://, contains no password, and has port 443 or 8443."
    ),
    "webhook_events": _("Choose at least one event that is available to you."),
    "webhook_limit": _("You have 10 webhooks, which is the limit. Remove one first."),
    "webhook_busy": _("Some tests are still waiting. Try again when they have finished."),
    "webhook_unknown_name": _("The host name of the URL could not be resolved."),
    "webhook_refused": _(
        "The URL points to a network that this site does not call. This site calls only the "
        "internet and networks that its operator has allowed."
    ),
    "webhook_tls": _("No trusted connection: check the certificate of your server."),
    "webhook_timeout": _("Your server did not respond in time."),
    "webhook_unreachable": _("Your server could not be reached, or closed the connection."),
    "webhook_status": _("Your server responded with an error or a redirect."),
    "webhook_broke": _(
        "The call failed because of an error on this site. The site’s administrator can find "
        "the cause in the log."
    ),
    "webhook_not_yours": _("Not called: only administrators receive events of devices."),
    "webhook_disabled": _("Not called: the webhook was disabled."),
    # users
    "not_administrator": _("Only an administrator can do this, and you are no longer one."),
    "last_administrator": _(
        "%(user)s is the last administrator. Give another user administrator rights first."
    ),
    "user_is_oneself": _("You cannot deactivate yourself. Ask another administrator."),
    "second_factor_none": _("%(user)s has no second factor."),
    "second_factor_own": _(
        "Turn off your own second factor in your account, which requires your password. If you "
        "lost your second factor, ask another administrator."
    ),
    "user_inactive": _("%(user)s is not active. Reactivate the account first."),
    "email_bad": _(
        "This is not a valid e-mail address. Enter an address such as name@example.org."
    ),
    "email_taken": _("A user with this e-mail address already exists."),
    "mail_not_sent": _(
        "The e-mail could not be sent: the mail server does not respond or refuses the address. "
        "Try again in a few minutes. If you have just registered, log in to have it sent again."
    ),
    "password_weak": _("%(problems)s"),
    "session_unknown": _("This session has already ended."),
    # grants
    "users_unknown": _("Unknown users: %(names)s. Nothing was changed."),
    "users_inactive": _("These users are not active: %(names)s. Nothing was changed."),
    "workers_unknown": _("Unknown devices: %(names)s. Nothing was changed."),
    "workers_retired": _("These devices are retired: %(names)s. Nothing was changed."),
    # devices
    "worker_name_bad": _(
        "The name of a device must consist of 1 to 60 letters, digits, dots, hyphens and "
        "underscores."
    ),
    "worker_name_taken": _("A device named %(name)s already exists. Choose another name."),
    "label_bad": _(
        "“%(label)s” is not a valid label: names consist of letters, digits, dots, hyphens and "
        "underscores, and values must not be empty."
    ),
    "label_long": _("Names and values of labels can have at most %(limit)s characters."),
    "labels_many": _("A device can have at most %(limit)s labels."),
}


def word(error: DomainError) -> str:
    """Return the translated message of an error; without one, a message with its code."""
    text = WORDINGS.get(error.code)
    if text is None:
        return gettext("Something went wrong (%(code)s).") % {"code": error.code}
    return str(text) % error.data
