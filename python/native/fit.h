// SPDX-License-Identifier: Apache-2.0
/* Holds the tensors of a header against those of a model: the plain case, quickly. */
#ifndef SLUICE_NATIVE_FIT_H
#define SLUICE_NATIVE_FIT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* fit(entries, tensors, types, devices, target_type, targets) -> the entries that are left: what has no tensor of its
 * name, another shape or type, no place in `types` or `devices` (names and numbers of what PyTorch calls dtype and
 * device), or does not lie in one piece. For each of the others targets[name] = target_type(tensor, pointer, device,
 * size, ""). */
PyObject* fit(PyObject* module, PyObject* arguments);

/* lie_apart(targets) -> bool: do no two of them share a byte? */
PyObject* lie_apart(PyObject* module, PyObject* targets);

#endif
