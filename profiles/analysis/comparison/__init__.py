"""Two to eight profiles side by side: which operators correspond, and what became of their time."""
