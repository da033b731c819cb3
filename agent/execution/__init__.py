"""One attempt on the device: plan, run, limits, results, delivery."""
