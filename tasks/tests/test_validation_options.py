"""Tests of rejecting options that load_and_run rejects or ignores, or that make it hang."""

import pytest

from agent.protocol.options import OPTIONS
from agent.protocol.plan import Plan
from tasks.models import Task
from tasks.submission.request import FileRequest
from tasks.tests.make import MD5, data_file, make_task, make_worker, model_file
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Runtime, Worker

pytestmark = pytest.mark.django_db

NO_PROFILE = Plan(preset="custom", clean=True, profiled=0)
WHEEL, BINARY = {"kind": "wheel"}, {"kind": "binary"}
GPU_WHEEL = {"kind": "wheel", "builds": ["cuda"]}
CUDA = {"kind": "binary", "builds": ["cuda", "tensorrt"]}


def worker_with(runtime: dict, cpu: str = "") -> Worker:
    worker = make_worker(facts={"cpu_model": cpu, "run_cores": [*range(8)]})
    Runtime.objects.filter(worker=worker).update(**runtime)
    return worker


def rejection(**changes) -> DomainError:
    with pytest.raises(DomainError) as caught:
        make_task(**changes)
    assert not Task.objects.exists()
    text = word(caught.value)
    assert caught.value.code not in text
    assert len(text) > 20
    return caught.value


@pytest.mark.parametrize("name", [n for n, o in OPTIONS.items() if o.type == "string"])
def test_option_rejects_shell_and_path_characters(name):
    worker = worker_with(BINARY | {"libraries": ["mine"]})
    codes = {"option_never", "option_not_bool", "option_bad_text", "option_bad_choice"}
    for value in ("; rm -rf /", "$(id)", "`id`", "a|b", "../x", "a b", "1\n2", "--x"):
        error = rejection(worker=worker, options={name: value})
        assert (error.field, error.code in codes) == (name, True), value


@pytest.mark.parametrize(
    ("options", "code", "field"),
    [
        # load_and_run ignores both layouts
        ({"enable_nchw44": True, "enable_nchw44_dot": True}, "excluded", "enable_nchw44"),
        ({"enable_nchw88": True, "enable_nchw44": True}, "excluded", "enable_nchw88"),
        # one of the options is ignored
        ({"lite": True, "mdl": True}, "excluded", "lite"),
        ({"cpu": True, "multithread": 2}, "excluded", "cpu"),
        ({"cpu": True, "cpu_default": True}, "excluded", "cpu"),
        ({"multithread": 2, "multithread_default": 2}, "excluded", "multithread"),
        ({"fast_run": True, "full_run": True}, "excluded", "fast_run"),
        # crashes with a null file
        ({"io_dump": True, "bin_io_dump": True}, "excluded", "io_dump"),
        ({"io_dump_stdout": True, "io_dump_stderr": True}, "excluded", "io_dump_stdout"),
        # needs another option or file
        ({"fast_run_shared_batch_size": 4}, "needs", "fast_run_shared_batch_size"),
        ({"fast_run_algo_policy": True}, "needs", "fast_run_algo_policy"),
        ({"layout_transform_dump": True}, "needs", "layout_transform_dump"),
        ({"multi_thread_core_ids": "0,1"}, "needs", "multi_thread_core_ids"),
        ({"c_opr_init_interface": "init"}, "needs", "c_opr_init_interface"),
        ({"multithread": 2, "multi_thread_core_ids": "0"}, "thread_count", "multi_thread_core_ids"),
        ({"multithread": 2, "multi_thread_core_ids": "1,1"}, "core_twice", "multi_thread_core_ids"),
        ({"multithread": 2, "multi_thread_core_ids": "0,8"}, "core_missing",
         "multi_thread_core_ids"),
        ({"pack_model_cryption": "AES_default"}, "needs", "pack_model_cryption"),
        ({"dump_fitting_model": True}, "needs", "dump_fitting_model"),
        ({"packed_model_dump": True, "pack_info_json": True}, "file_missing", "pack_info_json"),
        # aborts in lite mode
        ({"lite": True, "optimize_for_inference": True}, "lite", "optimize_for_inference"),
        ({"lite": True, "bin_out_dump": True}, "lite", "bin_out_dump"),
        ({"lite": True, "reproducible": True}, "lite", "reproducible"),
        # hangs or writes its file several times if a profile is recorded
        ({"record_comp_seq": True}, "alone", "record_comp_seq"),
        ({"record_comp_seq2": True}, "alone", "record_comp_seq2"),
        ({"thread": 2}, "alone", "thread"),
        ({"fitting": True}, "alone", "fitting"),
        # several threads write one file, or the run dumps nothing
        ({"thread": 2, "model_dump": True}, "excluded", "thread"),
        ({"record_comp_seq": True, "io_dump": True}, "excluded", "record_comp_seq"),
        # numbers that make it hang or abort, or that have no effect
        ({"iter": -1}, "too_small", "iter"),
        ({"iter": 0}, "too_small", "iter"),
        ({"iter": 10**9}, "too_large", "iter"),
        ({"warmup_iter": 0}, "too_small", "warmup_iter"),
        ({"thread": 0}, "too_small", "thread"),
        ({"multithread": 0}, "too_small", "multithread"),
        ({"batch_size": 10**6}, "too_large", "batch_size"),
        ({"iter": 1.5}, "not_int", "iter"),
        ({"iter": True}, "not_int", "iter"),
        ({"iter": "10"}, "not_int", "iter"),
        ({"verbose": 1}, "not_bool", "verbose"),
        ({"range": "much"}, "not_number", "range"),
        ({"range": -1.0}, "too_small", "range"),
        ({"layout_transform": "opencl"}, "bad_choice", "layout_transform"),
        ({"check_var_value": "x:y"}, "bad_text", "check_var_value"),
        # not available to users
        ({"input": "data:x.npy"}, "never", "input"),
        ({"profile": "/etc/passwd"}, "never", "profile"),
        ({"wait_gdb": True}, "never", "wait_gdb"),
        ({"no_such_option": True}, "unknown", "no_such_option"),
        ({"flagfile": "/etc/passwd"}, "unknown", "flagfile"),
        ({"fromenv": "HOME"}, "unknown", "fromenv"),
        # not supported by this compiled load_and_run
        ({"workspace_limit": 1000}, "needs_lite", "workspace_limit"),
        ({"enable_nchw4": True}, "cuda", "enable_nchw4"),
        ({"cuda": True}, "cuda", "cuda"),
        ({"layout_transform": "cuda"}, "cuda", "layout_transform"),
        ({"tensorrt": True}, "tensorrt", "tensorrt"),
        ({"enable_nhwcd4": True}, "opencl", "enable_nhwcd4"),
        ({"c_opr_lib": "mine"}, "library", "c_opr_lib"),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_rejected_with_code_and_field(options, code, field):
    error = rejection(worker=worker_with(BINARY), options=options)
    assert (error.code, error.field) == (f"option_{code}", field)


@pytest.mark.parametrize(
    ("runtime", "cpu", "options", "code"),
    [
        (WHEEL, "", {"check_dispatch": True}, "wheel"),
        (WHEEL, "", {"packed_model_dump": True}, "wheel"),
        (WHEEL, "", {"c_opr_lib": "x"}, "library"),
        (WHEEL, "", {"mdl": True, "io_dump": True}, "mdl"),
        (WHEEL, "", {"disable_mem_opt": True, "io_dump": True}, "mdl"),
        (GPU_WHEEL, "", {"enable_jit": True}, "needs"),
        (GPU_WHEEL, "", {"layout_transform": "cuda"}, "target"),
        (WHEEL, "AMD EPYC", {"enable_nchw88": True}, "amd"),
        (BINARY, "AMD EPYC", {"layout_transform": "cpu"}, "amd"),
        (BINARY | {"flags": ["iter", "no_sanity_check"]}, "", {"model_info": True}, "flag"),
        (BINARY | {"flags": ["iter", "no_sanity_check"]}, "", {}, "no_profile"),
        # an agent whose table lacks an option that the server's has
        (WHEEL | {"flags": ["iter", "profile"]}, "", {"model_info": True}, "flag"),
        (BINARY | {"libraries": ["a"]}, "", {"c_opr_lib": "b"}, "bad_choice"),
    ],
    ids=str,
)
def test_option_that_the_runtime_lacks_is_rejected(runtime, cpu, options, code):
    assert rejection(worker=worker_with(runtime, cpu), options=options).code == f"option_{code}"


def test_options_at_their_defaults_are_not_stored():
    options = {"iter": 10, "warmup_iter": 3, "cpu": False}
    assert make_task(options=options).options == {"warmup_iter": 3}


def test_plan_without_a_profile_accepts_exclusive_options():
    task = make_task(options={"thread": 2, "record_comp_seq": True}, plan=NO_PROFILE)
    assert task.options == {"thread": 2, "record_comp_seq": True}
    assert task.plan["profiled"] == 0


def test_wheel_on_amd_accepts_layout_transform():
    options = {"layout_transform": "cpu"}
    assert make_task(worker=worker_with(WHEEL, "AMD EPYC"), options=options).options == options


def test_old_binary_accepts_options_that_the_agent_implements():
    worker = worker_with(BINARY | {"flags": ["iter", "no_sanity_check", "profile"]})
    options = {"batch_size": 2, "profile_host": True}
    assert make_task(worker=worker, options=options).options == options


def test_device_with_cuda_accepts_cuda_options():
    options = {"cuda": True, "enable_nchw4": True, "tensorrt": True, "tensorrt_cache": True}
    assert make_task(worker=worker_with(CUDA), options=options).options == options


def test_listed_library_is_accepted():
    worker = worker_with(BINARY | {"libraries": ["mine"]})
    assert make_task(worker=worker, options={"c_opr_lib": "mine"}).options == {"c_opr_lib": "mine"}


def option_file(option: str, **changes) -> FileRequest:
    fields = {"kind": "option", "name": "c.bin", "size_bytes": 9, "md5": MD5, "option": option}
    return FileRequest(**fields | changes)


def test_cache_file_sets_its_option():
    file = option_file("fast_run_algo_policy")
    task = make_task(files=[model_file(), file, data_file()])
    assert [f.kind for f in task.files.all()] == ["model", "data", "option"]
    assert task.files.last().device_name == "algo_cache.bin"
    assert task.options == {"fast_run_algo_policy": True}


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([option_file("iter")], "option_file_unwanted"),
        ([option_file("nothing")], "option_file_unwanted"),
        ([option_file("")], "option_file_unwanted"),
        ([option_file("layout_transform_dump")], "option_file_unwanted"),
        ([option_file("tensorrt_cache")], "option_needs"),
        ([option_file("fast_run_algo_policy")] * 2, "option_file_twice"),
        ([option_file("fast_run_algo_policy", size_bytes=2**40)], "file_too_large"),
        ([option_file("fast_run_algo_policy", size_bytes=0)], "file_empty"),
        ([option_file("fast_run_algo_policy", name="a/b")], "file_name_path"),
        ([option_file("pack_info_json")], "option_needs"),
    ],
)
def test_invalid_option_files_are_rejected(files, code):
    assert rejection(worker=worker_with(BINARY), files=[model_file(), *files]).code == code
