"""What goes out about the memory of a dynamic graph; `profiles.memory_flow.summary` makes it."""

from rest_framework import serializers

from profiles.rest import operator_answers as kinds


class MemoryFlowTensorAnswer(serializers.Serializer):
    """One tensor; times since the Profiler began."""

    name = serializers.CharField(
        allow_blank=True, help_text="Empty for one that was there before the Profiler began."
    )
    layout = serializers.CharField(
        allow_blank=True, help_text="As MegEngine writes it: sizes with strides, then the type."
    )
    shape = serializers.ListField(
        child=serializers.IntegerField(), allow_null=True, help_text="Null: unknown."
    )
    dtype = serializers.CharField(allow_blank=True, help_text="Such as `Float32`.")
    size_bytes = serializers.IntegerField(
        help_text="From its first element to its last. A view may keep more: peak_kept_bytes."
    )
    produced_s = serializers.FloatField(help_text="When it began, s.")
    erased_s = kinds.number("When it ended, s.")
    duration_s = serializers.FloatField(help_text="To the end of the file if it never ended, s.")
    address = serializers.CharField(
        help_text="Where the memory begins that it shares with its views, hexadecimal. How far "
        "within that it begins is not in the file."
    )
    place_bytes = serializers.IntegerField(
        help_text="The same where addresses that nothing ever used are left out."
    )
    group = serializers.IntegerField(
        allow_null=True, help_text="Number of the operator that made it. Null: none did."
    )
    at_peak = serializers.BooleanField(help_text="It is alive when most bytes are held.")


class MemoryFlowTagAnswer(serializers.Serializer):
    """All tensors of one name, without the numbers of calls and outputs."""

    tag = serializers.CharField(allow_blank=True, help_text="The name that they share.")
    tensors = serializers.IntegerField(help_text="How many there are.")
    peak_tensors = serializers.IntegerField(help_text="How many are alive at the peak.")
    peak_bytes = serializers.IntegerField(help_text="Sizes of these, added up.")
    made_bytes = serializers.IntegerField(help_text="Sizes of all of them, added up.")


class MemoryFlowRegionAnswer(serializers.Serializer):
    """Addresses in use, with gaps of less than 1 MiB."""

    address = serializers.CharField(help_text="Where it begins, hexadecimal.")
    place_bytes = serializers.IntegerField(help_text="The same without unused addresses.")
    size_bytes = serializers.IntegerField(help_text="Bytes of it that were ever used.")


class MemoryFlowCurveAnswer(serializers.Serializer):
    """Bytes held, at most 1,000 moments with the most up to the next one."""

    at_s = kinds.numbers("Moments, s.")
    held_bytes = kinds.whole("Bytes held, each address once.")


class MemoryFlowAnswer(serializers.Serializer):
    """What `memory_flow.svg` says, of at most 10,000 tensors."""

    count = serializers.IntegerField(help_text="Tensors in the file.")
    begin_s = serializers.FloatField(help_text="When the first began, s.")
    end_s = serializers.FloatField(help_text="When the last ended, s.")
    peak_bytes = serializers.IntegerField(
        help_text="Most bytes held at a time, each address once; memory is held as a whole until "
        "the last tensor in it is gone."
    )
    peak_s = kinds.number("When that was first so, s.")
    peak_end_s = kinds.number("When that changed, s.")
    peak_tensors = serializers.IntegerField(help_text="Tensors that were alive then.")
    peak_added_bytes = serializers.IntegerField(
        help_text="Their sizes, added up; more than the peak where tensors share memory."
    )
    used_bytes = serializers.IntegerField(help_text="Addresses that any tensor ever had, bytes.")
    tensors = MemoryFlowTensorAnswer(
        many=True, help_text="By begin; those at the peak, then those large and long-lived."
    )
    tensors_left_out = serializers.IntegerField(help_text="How many more there are.")
    tags = MemoryFlowTagAnswer(many=True, help_text="By bytes at the peak, the 200 first.")
    tags_left_out = serializers.IntegerField(help_text="How many more there are.")
    regions = MemoryFlowRegionAnswer(many=True, help_text="By address, the 64 first.")
    regions_left_out = serializers.IntegerField(help_text="How many more there are.")
    curve = MemoryFlowCurveAnswer(help_text="Bytes held over time.")
    never_erased = serializers.IntegerField(help_text="Tensors without an end.")
    broken = serializers.IntegerField(help_text="Rectangles that could not be read.")
    beyond = serializers.IntegerField(help_text="Rectangles beyond the first 1,000,000.")
    others = serializers.IntegerField(help_text="Elements that MegEngine does not write.")
    is_cut = serializers.BooleanField(help_text="The file ends before its picture does.")
    peak_kept_bytes = serializers.IntegerField(
        help_text="Of the peak, what views then keep of larger tensors that are gone."
    )
    near_peak_s = kinds.number("How long nine tenths of the peak or more were held, in all, s.")
