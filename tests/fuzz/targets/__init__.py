"""One reader of untrusted input a module.

Each holds `MODULES` (what is instrumented and whose lines are counted), `seeds()` (small valid inputs, out of the
fixtures) and `one(data)`, which reads the input and raises whatever a reader must not. `words/NAME.dict` beside this
folder, in libFuzzer's form, holds tokens that the fuzzer puts in.
"""
