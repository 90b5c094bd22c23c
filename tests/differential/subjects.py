# SPDX-License-Identifier: Apache-2.0
"""How often scripts do what: by their subject, and what is drawn seldom because it is dangerous."""

# What costs NVIDIA's library an open, or its process: the chance of each where it could be drawn.
DANGERS = {
    "stale": 0.003,  # a transfer names a handle that was given back: the use count falls to 0
    "async_huge": 0.01,  # of stream calls with a size of 2 GiB and more: they hang
    "async_past": 0.1,  # of stream calls that reach past the memory otherwise: some leave a CUDA error that stays
    "async_registered": 0.1,  # of stream calls that reach past what was registered: some end the process
    "batches": 0.1,  # of scripts whose subject has batches: setting one up and giving it back takes 90 ms and more
    "batch_odd": 0.005,  # a bad entry or a handle that does not suit, beside good ones: the process aborts
    "batch_null": 0.0002,  # an entry with a null pointer: the same
    "set_up_null": 0.0005,  # no place for the batch: a crash
}

# How often a script does what, by its subject.
SUBJECTS = {
    "files": {"register_file": 5, "deregister_file": 2, "transfer": 5, "ask": 1, "register_memory": 1},
    "memory": {"register_memory": 6, "deregister_memory": 3, "transfer": 6, "register_file": 2, "deregister_file": 1},
    "transfers": {"transfer": 12, "register_file": 3, "register_memory": 2, "deregister_memory": 1},
    "batches": {"batch_submit": 8, "batch_set_up": 2, "batch_status": 2, "batch_end": 2, "register_file": 2,
                "register_memory": 1, "transfer": 1, "deregister_file": 1},
    "streams": {"stream_call": 10, "register_file": 3, "register_memory": 2, "transfer": 1, "deregister_memory": 1,
                "deregister_file": 1},
    "everything": {"transfer": 3, "register_file": 3, "register_memory": 2, "deregister_memory": 1, "deregister_file": 1,
                   "batch_submit": 2, "batch_end": 1, "stream_call": 2, "ask": 3},
    "parameters": {"set_parameter": 8, "ask": 4, "set_property": 2},
    "properties": {"set_property": 6, "ask": 5},
    "statistics": {"statistics": 8, "transfer": 4, "register_file": 2, "register_memory": 1, "deregister_memory": 1,
                   "deregister_file": 1, "batch_submit": 1},
}
OPEN_SUBJECTS = ["files", "memory", "transfers", "transfers", "batches", "batches", "streams", "streams", "everything",
                 "statistics", "properties"]
LIFE_SUBJECTS = ["parameters", "parameters", "properties", "statistics", "statistics", "files", "memory", "transfers",
                 "batches", "streams", "everything"]
