// SPDX-License-Identifier: Apache-2.0
/* Reads the header of a safetensors file: the plain case, quickly. */
#ifndef SLUICE_NATIVE_HEADER_H
#define SLUICE_NATIVE_HEADER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* parse_header(text, data_size, types, entry_type) -> (entries, metadata), or None where the text is anything but a
 * plain, sound header: _header.py then reads it again and says what is wrong with it. types: bits of an element by
 * name. */
PyObject* parse_header(PyObject* module, PyObject* arguments);

#endif
