"""What is compiled: one source in C, and a build hook that leaves it out where there is no compiler."""
