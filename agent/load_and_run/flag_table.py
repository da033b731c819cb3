"""The 74 flags of load_and_run 1.13: true names, types and defaults, in the groups of its help."""

#: of `workspace_limit`: no limit
NO_LIMIT = 2**64 - 1

#: group -> name -> (type, default, what it does)
GROUPS = {
    "models/model": {
        "lite": ("bool", False, "use megengine lite interface to run model"),
        "mdl": ("bool", False, "use the graph interface of megengine to run model"),
    },
    "options/strategy_options": {
        "iter": ("int32", 10, "iteration number for run model"),
        "thread": ("int32", 1, "number of threads; each loads and runs a copy of the model"),
        "warmup_iter": ("int32", 1, "iteration number for warm up model before run"),
        "share_param_mem": ("bool", False, "use the parameters where the file's memory holds them"),
    },
    "options/io_options": {
        "input": (
            "string",
            "",
            'set the inputs of the model: "name:file.npy", several with ";"',
        ),
        "batch_size": ("int32", -1, "set the first axis of every input to this size"),
        "io_dump": ("string", "", "write what each operator reads and makes to this text file"),
        "io_dump_stdout": ("bool", False, "write what each operator reads and makes to stdout"),
        "io_dump_stderr": ("bool", False, "write what each operator reads and makes to stderr"),
        "bin_io_dump": ("string", "", "write each variable to a binary file in this folder"),
        "bin_out_dump": ("string", "", "write the outputs of each run to files in this folder"),
        "copy_to_host": ("bool", False, "copy the outputs to the host as part of each run"),
    },
    "options/fastrun_options": {
        "fast_run": ("bool", False, "time the optimized algorithms and use the fastest"),
        "full_run": ("bool", False, "time all algorithms and use the fastest"),
        "binary_equal_between_batch": (
            "bool",
            False,
            "use algorithms whose result for an item does not depend on the batch",
        ),
        "reproducible": ("bool", False, "use reproducible algorithms only"),
        "fast_run_shared_batch_size": ("int32", 0, "batch size while algorithms are timed"),
        "fast_run_algo_policy": ("string", "", "file of the times of algorithms, read and written"),
    },
    "options/layout_options": {
        "enable_nchw4": ("bool", False, "layout nchw4 (CUDA, int8)"),
        "enable_chwn4": ("bool", False, "layout chwn4 (CUDA, int8)"),
        "enable_nchw44": ("bool", False, "layout nchw44 (ARM)"),
        "enable_nchw88": ("bool", False, "layout nchw88 (x86 with AVX)"),
        "enable_nchw32": ("bool", False, "layout nchw32 (CUDA tensor cores, int8)"),
        "enable_nchw64": ("bool", False, "layout nchw64 (CUDA tensor cores, int4)"),
        "enable_nhwcd4": ("bool", False, "layout nhwcd4 (OpenCL)"),
        "enable_nchw44_dot": ("bool", False, "layout nchw44_dot (ARM dot product)"),
    },
    "options/layout_trans_options": {
        "layout_transform": ("string", "", "find the best layouts for this device: cpu or cuda"),
        "layout_transform_dump": ("string", "", "write the model with these layouts to this file"),
    },
    "options/dtype_options": {
        "enable_ioc16": ("bool", False, "store and compute in float16"),
    },
    "options/optimize_options": {
        "enable_fuse_preprocess": ("bool", False, "fuse astype, pad_channel and dimshuffle"),
        "fuse_grain": ("bool", False, "fuse small operators into larger ones"),
        "weight_preprocess": ("bool", False, "transform the weights once, before the runs"),
        "enable_fuse_conv_bias_nonlinearity": ("bool", False, "fuse conv, bias and activation"),
        "enable_fuse_conv_bias_with_z": ("bool", False, "fuse conv, bias and the add (CUDA)"),
        "optimize_for_inference": ("bool", False, "run all passes for inference on the graph"),
        "const_shape": ("bool", False, "take all shapes as constant"),
        "fake_first": ("bool", False, "the first run does everything but compute"),
        "no_sanity_check": ("bool", False, "do not check the variables in the first run"),
        "record_comp_seq": ("bool", False, "record the kernels once, then replay them"),
        "record_comp_seq2": ("bool", False, "same, and free the graph"),
        "disable_mem_opt": ("bool", False, "no reuse of memory within the graph"),
        "workspace_limit": ("uint64", NO_LIMIT, "bytes that an algorithm may use as workspace"),
        "enable_jit": ("bool", False, "compile elementwise operators just in time (CUDA)"),
        "tensorrt": ("bool", False, "run what TensorRT can by TensorRT (CUDA)"),
        "tensorrt_cache": ("string", "", "file of TensorRT engines, read and written"),
    },
    "options/device_options": {
        "cpu": ("bool", False, "run on CPU device (default)"),
        "cuda": ("bool", False, "run on CUDA device 0"),
        "cpu_default": ("bool", False, "run on CPU in the thread of the caller"),
        "multithread": ("int32", -1, "run on CPU with this many threads"),
        "multithread_default": ("int32", -1, "same; the caller is one of the threads"),
        "multi_thread_core_ids": ("string", "", 'one core for each of these threads: "0,1"'),
    },
    "options/plugin_options": {
        "range": ("double", 0.0, "fail if a number in the graph is larger than this or NaN"),
        "check_dispatch": ("bool", False, "report operators that dispatch nothing"),
        "check_var_value": ("string", "", "check a variable for changes: interval[:first]"),
        "profile": ("string", "", "write a profile of the last run to this JSON file"),
        "profile_host": ("string", "", "same as profile; wins if both are given"),
        "model_info": ("bool", False, "show a table of the model's inputs and outputs"),
        "verbose": ("bool", False, "log at level DEBUG"),
        "disable_assert_throw": ("bool", False, "do not fail at a failed AssertEqual"),
        "wait_gdb": ("bool", False, "print the process id and wait for a character on stdin"),
        "get_static_mem_info": ("string", "", "write the plan of static memory to this folder"),
    },
    "options/extern_c_opr_options": {
        "c_opr_init_interface": ("string", "mgb_c_opr_init", "function that the library starts by"),
        "c_opr_lib": ("string", "", "load this library of operators (it runs its code)"),
        "c_opr_lib_with_param": ("bool", False, "take the inputs from that library"),
    },
    "options/model_options": {
        "packed_model_dump": ("string", "", "write the model as a packed one to this file"),
        "pack_info_json": ("string", "", "JSON file to pack with the model"),
        "pack_cache": ("string", "", "cache of algorithms to pack with the model"),
        "pack_info_cryption": ("string", "NONE", "how that JSON file is encrypted"),
        "pack_model_cryption": ("string", "NONE", "how the model is encrypted"),
        "model_dump": ("string", "", "write the graph after all passes to this file"),
    },
    "strategys/strategy_fitting": {
        "fitting": ("bool", False, "try sets of options and print the best one"),
        "dump_fitting_model": ("string", "", "write the model with these options to this file"),
    },
    "gflags": {
        "help": ("bool", False, "show help on all flags"),
        "version": ("bool", False, "show version and exit"),
    },
}

FLAGS = {name: row for group in GROUPS.values() for name, row in group.items()}

#: what the library in the wheel has no way in for
COMPILED_ONLY = (
    "check_dispatch",
    "check_var_value",
    "disable_assert_throw",
    "packed_model_dump",
    "pack_info_json",
    "pack_cache",
    "pack_info_cryption",
    "pack_model_cryption",
    "fitting",
    "dump_fitting_model",
    "c_opr_lib_with_param",
    "c_opr_init_interface",
)
