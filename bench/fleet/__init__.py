"""Load test of the control plane: simulated agents at a real site on this machine."""
