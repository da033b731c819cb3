"""User-facing messages for error codes of script tasks."""

from typing import Any

from django.utils.translation import gettext_lazy as _

SCRIPTS: dict[str, Any] = {
    "scripts_not_allowed": _(
        "An administrator does not let users run scripts on %(worker)s. Choose another device, or "
        "ask an administrator."
    ),
    "scripts_not_offered": _(
        "The agent on %(worker)s runs no scripts: its owner does not allow them in agent.toml "
        "([scripts], allow = true), or it has no sandbox that works. Choose another device; "
        "the device’s page tells its owner what to do."
    ),
    "script_needs_wheel": _(
        "MegEngine %(version)s on %(worker)s is a compiled load_and_run, which runs no scripts. "
        "Choose a version that is a Python package."
    ),
    "target_no_scripts": _(
        "No device that you may use runs scripts. Ask an administrator to allow them on one."
    ),
    "one_program_wanted": _("Choose one program: a .py file, or a .zip with an entry point."),
    "model_is_script": _(
        "“%(name)s” is a program or an archive, no model. Choose “Script” to run it, or give the "
        "model that it dumps (.mge)."
    ),
    "script_is_model": _(
        "“%(name)s” is a MegEngine model, no program. Choose “Model” to profile it."
    ),
    "script_is_zip": _("“%(name)s” is a zip archive. Give it a name that ends in .zip."),
    "script_suffix": _("“%(name)s” ends neither in .py nor in .zip. A program is one of them."),
    "script_not_text": _(
        "“%(name)s” is no Python source: it holds bytes that are no UTF-8 text. Choose the .py "
        "file itself."
    ),
    "script_not_zip": _("“%(name)s” is no zip archive. Pack it again, or give a .py file."),
    "script_zip_empty": _("The archive “%(name)s” is empty. Pack the program into it."),
    "script_zip_damaged": _("The archive “%(name)s” is damaged. Pack it again."),
    "script_entry_missing": _("Name the program within “%(name)s” to start, such as train.py."),
    "script_entry_unwanted": _(
        "“%(name)s” is the program itself; an entry point is for a .zip. Leave it empty."
    ),
    "script_entry_bad": _(
        "“%(entry)s” is no entry point. Give the path of a .py file within the archive, such as "
        "train/main.py: letters, digits, dot, dash, space and underscore, no leading dot or dash."
    ),
    "script_entry_not_there": _(
        "The archive “%(name)s” has no “%(entry)s”. Programs in it: %(names)s."
    ),
    "script_arguments_unreadable": _(
        "The arguments cannot be split: a quotation mark or a backslash has no end. Close it, or "
        "put a backslash before a mark that is meant as such."
    ),
    "script_arguments_bad": _(
        "At most %(limit)s arguments of at most %(length)s characters each go to a script."
    ),
    "script_formats": _("Choose what is recorded, each format once: %(choices)s."),
    "script_sample_rate": _(
        "Memory is counted every so many operators: a whole number from 0 (never) to %(limit)s."
    ),
    "script_time_limit": _(
        "The time limit of a script is a whole number of seconds up to %(limit)s, for all of its "
        "runs together; 0 or nothing for that."
    ),
    "script_takes_no_options": _(
        "A script takes no options of load_and_run, which does not run it. Leave them out."
    ),
    "script_takes_no_plan": _(
        "A script takes no measuring plan: it is run once for each format. Leave the plan out."
    ),
    "script_takes_no_inputs": _(
        "A script has no input variables. Upload data files without naming a variable: they lie "
        "beside the program."
    ),
    "script_takes_no_seed": _(
        "A script takes no seed: it makes its own random values. Give the seed as an argument."
    ),
    "script_data_name": _(
        "“%(name)s” cannot lie beside a script. Rename the file: letters, digits, dot, dash and "
        "underscore, at most 100, the first a letter or a digit."
    ),
    "script_data_twice": _(
        "“%(name)s” is there twice, or is what the program itself is called on the device. Rename "
        "the file."
    ),
}
