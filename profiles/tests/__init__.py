"""Tests of the app `profiles`: parsers, analysis, pages, exports, storage and retention."""
