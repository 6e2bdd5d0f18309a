"""Runtime objects that compiled programs use: dtypes, devices, tensors, packed functions, modules, files and
threads.

`heddle.facade.table` lists the public names of this package. A name's module is imported when the name is
first used.
"""
