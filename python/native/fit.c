/* SPDX-License-Identifier: Apache-2.0 */
/* What _into.py asks of a tensor of PyTorch, five things each, without Python in between: a model has tens of
 * thousands, and no target is written before all are known to fit. All that is not plain is left to _into.py. */
#include "fit.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "rows.h"

typedef struct {
  PyObject* tensors;
  PyObject* types;
  PyObject* devices;
  PyObject* target_type;
  PyObject* targets;
  PyObject* new_tuple;
  PyObject *shape, *dtype, *device, *is_contiguous, *data_ptr, *nothing; /* texts */
} Model;

typedef struct {
  PyObject *name, *dtype, *shape;
  int64_t size;
} Wanted;

static bool wanted_of(PyObject* entry, Wanted* wanted) {
  if (!PyTuple_Check(entry) || PyTuple_Size(entry) != 5) return false;
  wanted->name = PyTuple_GetItem(entry, 0);
  wanted->dtype = PyTuple_GetItem(entry, 1);
  wanted->shape = PyTuple_GetItem(entry, 2);
  const int64_t begin = PyLong_AsLongLong(PyTuple_GetItem(entry, 3));
  wanted->size = PyLong_AsLongLong(PyTuple_GetItem(entry, 4)) - begin;
  return PyErr_Occurred() == NULL;
}

static bool has(PyObject* tensor, PyObject* attribute, PyObject* expected) {
  PyObject* const found = PyObject_GetAttr(tensor, attribute);
  const bool equal = found != NULL && PyObject_RichCompareBool(found, expected, Py_EQ) == 1;
  Py_XDECREF(found);
  return equal;
}

/* What `names` calls an attribute; a borrowed reference, or NULL. */
static PyObject* known_as(PyObject* tensor, PyObject* attribute, PyObject* names) {
  PyObject* const found = PyObject_GetAttr(tensor, attribute);
  PyObject* const name = found != NULL ? PyDict_GetItemWithError(names, found) : NULL;
  Py_XDECREF(found);
  return name;
}

static bool lies_in_one_piece(PyObject* tensor, const Model* model) {
  PyObject* const answer = PyObject_CallMethodObjArgs(tensor, model->is_contiguous, NULL);
  const bool does = answer == Py_True;
  Py_XDECREF(answer);
  return does;
}

/* Notes the target of a tensor, if it is plain. What is asked of it may run anything, if it is no tensor of PyTorch's.
 */
static bool fits_as_it_lies(const Model* model, PyObject* tensor, const Wanted* wanted) {
  if (!has(tensor, model->shape, wanted->shape)) return false;
  PyObject* const type = known_as(tensor, model->dtype, model->types);
  if (type == NULL || PyObject_RichCompareBool(type, wanted->dtype, Py_EQ) != 1) return false;
  PyObject* const device =
      known_as(tensor, model->device, model->devices); /* small numbers, which nothing takes away */
  if (device == NULL || !lies_in_one_piece(tensor, model)) return false;
  PyObject* const pointer = PyObject_CallMethodObjArgs(tensor, model->data_ptr, NULL);
  PyObject* const size = PyLong_FromLongLong(wanted->size);
  PyObject* const target = pointer != NULL && size != NULL ? named_tuple(model->new_tuple, model->target_type, tensor,
                                                                         pointer, device, size, model->nothing)
                                                           : NULL;
  const bool stored = target != NULL && PyDict_SetItem(model->targets, wanted->name, target) == 0;
  Py_XDECREF(pointer);
  Py_XDECREF(size);
  Py_XDECREF(target);
  return stored;
}

static bool fits(const Model* model, const Wanted* wanted) {
  PyObject* const tensor = PyDict_GetItemWithError(model->tensors, wanted->name);
  if (tensor == NULL) return false;
  Py_INCREF(tensor);
  const bool does = fits_as_it_lies(model, tensor, wanted);
  Py_DECREF(tensor);
  return does;
}

static PyObject* those_left(const Model* model, PyObject* entries) {
  PyObject* const left = PyList_New(0);
  const Py_ssize_t count = PyList_Size(entries);
  for (Py_ssize_t number = 0; left != NULL && number < count; ++number) {
    PyObject* const entry = PyList_GetItem(entries, number);
    Wanted wanted = {0};
    if (wanted_of(entry, &wanted) && fits(model, &wanted)) continue;
    const bool interrupted = PyErr_Occurred() != NULL && !PyErr_ExceptionMatches(PyExc_Exception);
    if (!interrupted) PyErr_Clear();
    if (interrupted || PyList_Append(left, entry) != 0) {
      Py_DECREF(left);
      return NULL;
    }
  }
  return left;
}

PyObject* fit(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* entries = NULL;
  Model model = {0};
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!OO!", &PyList_Type, &entries, &PyDict_Type, &model.tensors, &PyDict_Type,
                        &model.types, &PyDict_Type, &model.devices, &model.target_type, &PyDict_Type, &model.targets))
    return NULL;
  PyObject* const texts = Py_BuildValue("(ssssss)", "shape", "dtype", "device", "is_contiguous", "data_ptr", "");
  if (texts == NULL) return NULL;
  PyObject** const places[] = {&model.shape,         &model.dtype,    &model.device,
                               &model.is_contiguous, &model.data_ptr, &model.nothing};
  for (Py_ssize_t text = 0; text < 6; ++text) *places[text] = PyTuple_GetItem(texts, text);
  model.new_tuple = tuple_maker();
  PyObject* const left = model.new_tuple != NULL ? those_left(&model, entries) : NULL;
  Py_XDECREF(model.new_tuple);
  Py_DECREF(texts);
  return left;
}

typedef struct {
  uint64_t begin, size;
} Span;

static int compare(const void* one, const void* other) {
  const Span* const a = one;
  const Span* const b = other;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Where targets lie; those of no bytes or no address are left out. The count, or -1. */
static Py_ssize_t spans_of(PyObject* targets, Span* spans) {
  Py_ssize_t position = 0, count = 0;
  PyObject *name = NULL, *target = NULL;
  while (PyDict_Next(targets, &position, &name, &target)) {
    if (!PyTuple_Check(target) || PyTuple_Size(target) != 5) continue;
    const Span span = {PyLong_AsUnsignedLongLong(PyTuple_GetItem(target, 1)),
                       PyLong_AsUnsignedLongLong(PyTuple_GetItem(target, 3))};
    if (PyErr_Occurred() != NULL) return -1;
    if (span.begin != 0 && span.size != 0) spans[count++] = span;
  }
  return count;
}

PyObject* lie_apart(PyObject* module, PyObject* targets) {
  (void)module;
  if (!PyDict_Check(targets)) return PyErr_Format(PyExc_TypeError, "a dict of targets is wanted");
  Span* const spans = malloc(((size_t)PyDict_Size(targets) + 1) * sizeof *spans);
  if (spans == NULL) return PyErr_NoMemory();
  const Py_ssize_t count = spans_of(targets, spans);
  bool apart = count >= 0;
  if (count > 1) qsort(spans, (size_t)count, sizeof *spans, compare);
  for (Py_ssize_t number = 1; apart && number < count; ++number)
    apart = spans[number].begin - spans[number - 1].begin >= spans[number - 1].size;
  free(spans);
  return count < 0 ? NULL : PyBool_FromLong(apart);
}
