"""What compiled files hold: fat binaries and archives, ELF files of kernels, and NVIDIA's programs that open them."""
