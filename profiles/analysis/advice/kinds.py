"""Types of operators that rules treat alike."""

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
#: what load_and_run's lite interface calls to hand out a result: a copy to the host
RESULT_CALLBACK = "ComputingGraphImpl::CallbackCaller"
#: they bring tensors in and out and compute nothing
GLUE = CONSTANTS | CALLBACKS | {RESULT_CALLBACK, "Host2DeviceCopy"}
