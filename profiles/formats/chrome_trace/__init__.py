"""Traces of dynamic graphs: `chrome_timeline.json` of `megengine.utils.profiler.Profiler`."""
