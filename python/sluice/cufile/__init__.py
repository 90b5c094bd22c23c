"""The module `cufile` in the shape that LMCache imports: a driver object, and files read into raw device addresses."""
