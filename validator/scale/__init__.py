"""From one kernel on a laptop to a matrix on a cluster: cells, the plan that picks them, and what runs them.

A stage says what is to be run as cells (`cell`). `engine` takes each from an earlier run where it can (`store`), has
the rest run by an executor (`local`, `cluster`) and keeps what came of it: nothing is done twice or lost.
"""
