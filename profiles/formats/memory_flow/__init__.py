"""Memory of dynamic graphs: `memory_flow.svg` of `megengine.utils.profiler.Profiler`."""
