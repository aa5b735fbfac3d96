"""From the arguments of `fit` to a posterior: checked, prepared, sampled, collected."""
