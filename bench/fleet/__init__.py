"""Load test of the control plane: simulated agents and users at a site on this machine."""
