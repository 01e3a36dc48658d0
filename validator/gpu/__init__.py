"""Running candidates on a GPU: the driver, launches from a contract alone, the adversarial neighbour.

Needs the `[gpu]` extra, a CUDA driver and a device of compute capability 9.0 or later. Where one is missing every entry
point answers with `NotHere`, a value with the reason; nothing here passes for lack of a device.
"""
