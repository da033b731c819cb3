"""A fleet of simulated agents at a real site on this machine: what the control plane takes."""
