"""Kernels that already shipped, kernel by kernel: what each is at the base, and what it is at the head."""
