// SPDX-License-Identifier: Apache-2.0
/* Rows of a table: tuples of a named type, of five things each. */
#ifndef SLUICE_NATIVE_ROWS_H
#define SLUICE_NATIVE_ROWS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What makes them without the function in Python that such a type has for it, which takes more than all else of a row.
 */
static inline PyObject* tuple_maker(void) {
  return PyObject_GetAttrString((PyObject*)&PyTuple_Type, "__new__");
}

static inline PyObject* named_tuple(PyObject* maker, PyObject* type, PyObject* a, PyObject* b, PyObject* c, PyObject* d,
                                    PyObject* e) {
  PyObject* const plain = PyTuple_Pack(5, a, b, c, d, e);
  PyObject* const row = plain != NULL ? PyObject_CallFunctionObjArgs(maker, type, plain, NULL) : NULL;
  Py_XDECREF(plain);
  return row;
}

#endif
