"""One line of help for each option of load_and_run, in the reader's language."""

from typing import Any

from django.utils.translation import gettext_lazy as _

OPTION_HELP: dict[str, Any] = {
    "lite": _(
        "Load the model by the megengine-lite interface, whatever its format. Several options "
        "do not work with it."
    ),
    "mdl": _("Load the model by the raw graph interface. Not for packed or encrypted models."),
    "iter": _("Timed iterations of each process. The profile holds the last one."),
    "warmup_iter": _(
        "Iterations before the timed ones. The first is far slower than all others, so at least "
        "one is made."
    ),
    "thread": _(
        "Host threads that each load and run a copy of the model: a test of thread safety, not "
        "a speed-up."
    ),
    "share_param_mem": _(
        "Read the file into one buffer and share the parameters with it: less memory, faster to "
        "load."
    ),
    "input": _("Which data each input variable gets."),
    "batch_size": _(
        "Set the first axis of every input to this number. Data given for inputs are repeated "
        "to that size."
    ),
    "io_dump": _(
        "Write the inputs and outputs of every operator as text. Fails on models that still "
        "have BatchNorm."
    ),
    "io_dump_stdout": _("The same text to standard output, which becomes part of the log."),
    "io_dump_stderr": _("The same text to standard error, mixed with the log."),
    "bin_io_dump": _(
        "Write every variable as a binary file of its own. Fails on variables that are not "
        "contiguous, as BatchNorm makes them."
    ),
    "bin_out_dump": _("Write only the outputs of the model as binary files."),
    "copy_to_host": _("Copy the outputs from device to host within the timed part."),
    "fast_run": _(
        "Time the optimized algorithms of each operator on the real shapes and use the fastest. "
        "The first run takes about half a minute longer."
    ),
    "full_run": _(
        "As fast_run, but over all algorithms, naive ones too: the first run takes minutes."
    ),
    "binary_equal_between_batch": _(
        "Use only algorithms whose result for one item does not depend on the batch. Implies "
        "reproducible."
    ),
    "reproducible": _(
        "Use only algorithms that give the same result every time. Matters for cuDNN."
    ),
    "fast_run_shared_batch_size": _(
        "Batch size with which algorithms are tried out, instead of the model's own."
    ),
    "fast_run_algo_policy": _(
        "Keep the choice of algorithms as an artifact; with a file, start from that choice. It "
        "fits one device, shape and version."
    ),
    "enable_nchw4": _("Layout NCHW4 for int8 on CUDA (dp4a, cuDNN)."),
    "enable_chwn4": _("Layout CHWN4 for int8 on CUDA, from compute capability 6.1."),
    "enable_nchw32": _("Layout NCHW32 for int8 on the tensor cores of CUDA."),
    "enable_nchw64": _("Layout NCHW64 for int4 on the tensor cores of CUDA."),
    "enable_nchw44": _(
        "Layout NCHW44 for float32 and int8 on ARM. Slower on x86; models with BatchNorm need "
        "optimize_for_inference."
    ),
    "enable_nchw44_dot": _(
        "Layout NCHW44 with dot product for int8 on ARM. Models with BatchNorm need "
        "optimize_for_inference."
    ),
    "enable_nchw88": _(
        "Layout NCHW88 for float32 on x86 with AVX, by MKL-DNN. Models with BatchNorm need "
        "optimize_for_inference."
    ),
    "enable_nhwcd4": _("Layout NHWCD4 for OpenCL."),
    "layout_transform": _(
        "Time the operators in many layouts and rewrite the graph for this target. Takes minutes."
    ),
    "layout_transform_dump": _("Keep the rewritten model as an artifact."),
    "enable_ioc16": _(
        "Store and compute in float16. Meant for ARM with float16 and for CUDA; a hundred times "
        "slower on x86."
    ),
    "enable_fuse_preprocess": _(
        "Fuse astype, pad channel and dimshuffle behind the input into one operator."
    ),
    "fuse_grain": _("Fuse small operators into larger ones."),
    "weight_preprocess": _(
        "Transform weights beforehand (winograd, im2col). Faster, takes more memory; shapes "
        "must not change."
    ),
    "enable_fuse_conv_bias_nonlinearity": _(
        "Fuse convolution, bias and activation into one operator."
    ),
    "enable_fuse_conv_bias_with_z": _(
        "Fuse the addition of a residual into the convolution too. CUDA only."
    ),
    "optimize_for_inference": _(
        "Run all passes for inference after loading: folds BatchNorm and applies the chosen "
        "layouts and fusions."
    ),
    "const_shape": _("Take the shapes of variables as constant when the model is loaded."),
    "fake_first": _("Let the first run do everything but compute."),
    "no_sanity_check": _(
        "Make no checksums of variables in the first run, which becomes much faster on a busy "
        "machine."
    ),
    "record_comp_seq": _(
        "Record the kernels once, then replay them. Hangs beside a profile and fails on storage "
        "that changes."
    ),
    "record_comp_seq2": _("As record_comp_seq, and free the graph. Models with BatchNorm crash."),
    "disable_mem_opt": _("Neither plan nor reuse memory: for finding errors."),
    "workspace_limit": _(
        "The most bytes of workspace that an algorithm may use. On a compiled load_and_run it "
        "works with lite only."
    ),
    "enable_jit": _("Compile fused elementwise operators just in time, by NVRTC."),
    "tensorrt": _("Let TensorRT run the parts of the graph that it supports."),
    "tensorrt_cache": _("Keep TensorRT's engines as an artifact; with a file, start from those."),
    "cpu": _("Run on the CPU with one worker thread."),
    "cuda": _("Run on the first CUDA device."),
    "cpu_default": _("Run on the CPU in the calling thread: steadier times on a busy machine."),
    "multithread": _("Run on the CPU with this many threads."),
    "multithread_default": _("As multithread, with the caller as one of the threads."),
    "multi_thread_core_ids": _(
        "The core of each thread, with commas between: 0,1,2. As many as there are threads."
    ),
    "range": _(
        "Fail when a value of any variable is larger than this, or no number. Makes runs slower."
    ),
    "check_dispatch": _("Name in the log each operator that starts no kernel on the CPU."),
    "check_var_value": _(
        "Look for variables whose values change: N or N:first, one more variable every N runs."
    ),
    "profile": _("Where the profile goes."),
    "profile_host": _(
        "Ask for the profile by --profile_host. The file is the same; OpenCL builds need it."
    ),
    "model_info": _("Write the inputs and outputs of the model with their shapes into the log."),
    "verbose": _("Log in detail. The log becomes very long."),
    "disable_assert_throw": _("Do not fail when an AssertEqual of a test model does not hold."),
    "wait_gdb": _("Wait for a debugger."),
    "get_static_mem_info": _("Keep the static memory plan and the graph as JSON, as an artifact."),
    "c_opr_lib": _("Load a library of custom operators that the device's owner lists."),
    "c_opr_lib_with_param": _(
        "Feed test inputs by the copr_param functions of the library. For test models."
    ),
    "c_opr_init_interface": _("The name of the library's init function."),
    "packed_model_dump": _("Keep the model as a packed lite model, as an artifact."),
    "pack_info_json": _(
        "A JSON file with information to embed; it must have name, valid and version."
    ),
    "pack_cache": _("A cache of algorithms to embed into the packed model."),
    "pack_info_cryption": _(
        "How the embedded information is encrypted: a label only, the file must be encrypted "
        "already."
    ),
    "pack_model_cryption": _(
        "How the model is encrypted: a label only, the file must be encrypted already."
    ),
    "model_dump": _("Keep the model after all passes over its graph, as an artifact."),
    "fitting": _(
        "Try fixed sets of options one after the other and print the best. Most other options "
        "are reset."
    ),
    "dump_fitting_model": _("Keep the model packed with the best options, as an artifact."),
}
