"""What a token costs: a model, a placement and a measured matrix give seconds. Needs no kernels."""
