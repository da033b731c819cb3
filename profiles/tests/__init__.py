"""Tests of the parsers and of the analysis."""
