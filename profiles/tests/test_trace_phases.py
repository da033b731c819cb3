"""Phases of a training step, with MegEngine's spans within and outside of user scopes."""

import pytest

from profiles.tests.traces import HOST, enclose, operator, read, span, to_trace


def make_backward(at, number):
    """Return a backward pass of 30 us as MegEngine 1.13 writes it; its kernel takes 7 us."""
    inner = enclose(
        span(HOST, "ConvolutionBackward", at + 1, at + 20),
        *operator(number, "ConvolutionBackward", at + 2, 7, "g:0"),
    )
    return enclose(span(HOST, "backward", at, at + 30), *inner)


def make_training_step(at, number):
    """Return a step with the phases forward, backward, step and clear_grad.

    They take 20, 30, 10 and 1 us; the kernels of the first three take 5, 7 and 3 us.
    """
    return [
        *enclose(
            span(HOST, "conv", at, at + 20), *operator(number, "Convolution", at + 1, 5, "y:0")
        ),
        *make_backward(at + 20, number + 10),
        *enclose(
            span(HOST, "step", at + 50, at + 60), *operator(number + 20, "SUB", at + 51, 3, "w:0")
        ),
        *span(HOST, "clear_grad", at + 60, at + 61),
    ]


def phases_of(folder, *events):
    """Return {phase: (calls, host us, device us)}."""
    return {
        row.name: (row.count, round(row.host_s * 1e6), round(row.device_s * 1e6))
        for row in read(folder, to_trace(*events)).summary.phases
    }


def test_a_user_scope_around_steps_does_not_hide_their_phases(tmp_path):
    """The scope "train_step" is entered twice for 100 us, of which 59 us are the forward pass."""
    events = [
        *enclose(span(HOST, "train_step", 0, 100), *make_training_step(0, 100)),
        *enclose(span(HOST, "train_step", 200, 300), *make_training_step(200, 200)),
    ]
    assert phases_of(tmp_path, *events) == {
        "forward": (2, 118, 10),
        "backward": (2, 60, 14),
        "step": (2, 20, 6),
        "clear_grad": (2, 2, 0),
    }


def test_nested_user_scopes_do_not_hide_phases(tmp_path):
    step = make_training_step(0, 100)
    backward_at = next(n for n, event in enumerate(step) if event["name"] == "backward")
    step_at = next(n for n, event in enumerate(step) if event["name"] == "step")
    parts = [
        *enclose(span(HOST, "net", 0, 20), *step[:backward_at]),
        *enclose(span(HOST, "gradients", 20, 50), *step[backward_at:step_at]),
        *enclose(span(HOST, "update", 50, 60), *step[step_at:-2]),
    ]
    phases = phases_of(tmp_path, *enclose(span(HOST, "iteration", 0, 70), *parts))
    assert phases == {"forward": (1, 30, 5), "backward": (1, 30, 7), "step": (1, 10, 3)}


def test_steps_after_a_caught_exception_count(tmp_path):
    """With with_scopes=True, MegEngine 1.13 never ends the scope of a function that raised."""
    events = [
        *make_training_step(0, 100),
        *span(HOST, "concat", 100, 101)[:1],
        *make_training_step(200, 200),
        *make_training_step(400, 300),
    ]
    phases = phases_of(tmp_path, *events)
    assert [phases[name][0] for name in ("backward", "step", "clear_grad")] == [3, 3, 3]
    assert [phases[name][2] for name in ("forward", "backward", "step")] == [15, 21, 9]
    # `concat` is open to the last event (461 us); 41 us of each of two steps are other phases
    assert phases["forward"][1] == 20 + 361 - 2 * 41


@pytest.mark.parametrize("name", ["step", "backward"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_module_named_like_a_phase_belongs_to_the_forward_pass(tmp_path, name, wrapped):
    """Such names occur: the cell of a recurrent network, a direction of a bidirectional one."""
    cells = [
        event
        for n in range(3)
        for event in enclose(
            span(HOST, name, 10 * n + 1, 10 * n + 8),
            *operator(10 * n, "MatrixMul", 10 * n + 2, 4, "h:0"),
        )
    ]
    network = enclose(span(HOST, "rnn", 0, 40), *cells, *operator(60, "ADD", 35, 2, "y:0"))
    events = [*network, *make_training_step(100, 100)]
    phases = phases_of(
        tmp_path, *(enclose(span(HOST, "work", 0, 200), *events) if wrapped else events)
    )
    assert (phases["backward"][0], phases["step"][0]) == (1, 1)
    assert [phases[phase][2] for phase in ("forward", "backward", "step")] == [19, 7, 3]


def test_a_network_with_only_a_module_named_step_is_no_training(tmp_path):
    cell = enclose(span(HOST, "step", 1, 8), *operator(10, "MatrixMul", 2, 4, "h:0"))
    assert phases_of(tmp_path, *enclose(span(HOST, "rnn", 0, 10), *cell)) == {"forward": (1, 10, 4)}
