"""PPM and PGM inputs: all legal headers, and the samples as they are."""

from pathlib import Path

import numpy as np
import pytest
from load_and_run.errors import InputError
from load_and_run.inputs import parse_input


def picture(folder: Path, content: bytes, name: str = "a.pgm") -> np.ndarray:
    path = folder / name
    path.write_bytes(content)
    (given,) = parse_input(f"x:{path}")
    array = given.read(np.dtype("uint8"))
    assert (given.shape, given.dtype) == (array.shape, "uint8")
    return array


@pytest.mark.parametrize(
    "header",
    [
        b"P5\n4 3\n255\n",
        b"P5 4 3 255 ",
        b"P5\n4 3 255\n",
        b"P5\r\n# made by hand\n4\t3 # width and height\n\n255\n",
        b"P5#c\n4#c\n3#c\n200\n",
    ],
)
def test_every_legal_header_leads_to_the_same_samples(tmp_path: Path, header: bytes) -> None:
    array = picture(tmp_path, header + bytes(range(12)))
    assert array.shape == (1, 3, 4, 1)
    assert array.ravel().tolist() == list(range(12))


def test_samples_may_look_like_white_space_or_comments(tmp_path: Path) -> None:
    assert picture(tmp_path, b"P5 2 1 255\n\n#").ravel().tolist() == [10, 35]


def test_colours_are_the_last_axis(tmp_path: Path) -> None:
    array = picture(tmp_path, b"P6\n2 1\n255\n" + bytes([1, 2, 3, 4, 5, 6]), "a.ppm")
    assert array.tolist() == [[[[1, 2, 3], [4, 5, 6]]]]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "no binary picture"),
        (b"P2\n1 1\n255\n7\n", "no binary picture"),
        (b"P5\n2 x\n255\n12", "no binary picture"),
        (b"P5\n0 2\n255\n", "no pixels"),
        (b"P5\n1 1\n65535\n12", "only 8 bits"),
        (b"P5\n1 1\n0\n1", "only 8 bits"),
        (b"P5\n4 3\n255\n123", "cut short: 4 x 3 pixels take 23 bytes, the file has 14"),
        (b"P5\n999999999 999999999\n255\n1", "cut short"),
        (b"P5\n9999999999 1\n255\n1", "no binary picture"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    with pytest.raises(InputError) as caught:
        picture(tmp_path, content)
    assert text in str(caught.value)


def test_a_missing_picture_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        parse_input("x:no_such.ppm")
    (tmp_path / "d.pgm").mkdir()
    with pytest.raises(InputError, match="is no file"):
        parse_input(f"x:{tmp_path / 'd.pgm'}")
