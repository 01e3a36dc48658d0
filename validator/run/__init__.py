"""Running untrusted code: a worker process that holds nothing worth stealing, and the channel to it."""
