"""Sets of operator types that rules treat alike."""

CONSTANTS = frozenset(
    {
        "ImmutableTensor",
        "SharedDeviceTensor",
        "SharedDeviceTensorWithFormat",
        "VolatileSharedDeviceTensor",
        "MultipleDeviceTensorHolder",
        "MultipleDeviceTensorWithFormatHolder",
    }
)
CALLBACKS = frozenset({"InputCallback", "OutputCallback"})
#: operator with which load_and_run's lite interface returns a result: a copy to the host
RESULT_CALLBACK = "ComputingGraphImpl::CallbackCaller"
#: operators that pass tensors in and out without computing
GLUE = CONSTANTS | CALLBACKS | {RESULT_CALLBACK, "Host2DeviceCopy"}
