"""Frames of a test."""

from polars.testing import assert_frame_equal


def assert_all_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_frame_equal(one, other)
