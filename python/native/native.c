/* SPDX-License-Identifier: Apache-2.0 */
/* The extension of the Python package: what is done for each slice and each tensor, without Python in between.
 *
 * One file for every CPython from 3.9 on (limited API). Where it cannot be loaded (free-threaded builds, PyPy), the
 * same is done by ctypes and Python in _sliced_plan.py, _header.py and _into.py; one set of tests drives both.
 *
 * Plan: slices of ranges in a queue that several threads empty by cuFileRead or cuFileWrite. Threads enter run() once
 * and stay there without Python's lock until the plan ends, so that Python code that runs meanwhile does not hold them
 * up.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PY_SSIZE_T_CLEAN
#include <Python.h>
/* */
#include "fit.h"
#include "header.h"

typedef ssize_t (*transfer_call)(void* file, void* memory, size_t size, int64_t file_offset, int64_t memory_offset);
typedef const char* (*text_call)(void);

enum { cuda_code = 100000 /* added to a code of the CUDA driver, where one is kept as a cause */ };

typedef struct {
  void* file; /* a handle, or a descriptor */
  char* memory;
  size_t size;
  int64_t offset;
  size_t range;
} Slice;

typedef struct {
  PyObject_HEAD transfer_call call;
  text_call last_error;
  size_t slice_size;
  pthread_mutex_t lock;
  pthread_cond_t work;   /* a slice more, or the end */
  pthread_cond_t change; /* the prefix moved, or something failed */
  Slice* slices;
  size_t count, room, next;
  size_t* left; /* of each range: bytes that are missing */
  size_t ranges, range_room, first_open;
  bool sealed, stopped;
  long long failed_code; /* 0: none; an errno, a cuFile code, or -1 for the end of the file */
  size_t failed_range;
  int64_t failed_at;
  char failed_text[512];
} Plan;

/* --- carrying, without Python's lock ---------------------------------------------------------------------------------
 */

static void advance(Plan* plan) {
  const size_t before = plan->first_open;
  while (plan->first_open < plan->ranges && plan->left[plan->first_open] == 0) ++plan->first_open;
  if (plan->first_open != before) pthread_cond_broadcast(&plan->change);
}

static void stop(Plan* plan) {
  plan->stopped = true;
  pthread_cond_broadcast(&plan->work);
  pthread_cond_broadcast(&plan->change);
}

static void fail(Plan* plan, const Slice* slice, long long code, size_t done) {
  pthread_mutex_lock(&plan->lock);
  if (plan->failed_code == 0 && !plan->stopped) {
    plan->failed_code = code;
    plan->failed_range = slice->range;
    plan->failed_at = slice->offset + (int64_t)done;
    const char* const text = code > 0 && code < cuda_code && plan->last_error != NULL ? plan->last_error() : NULL;
    if (text != NULL) strncpy(plan->failed_text, text, sizeof plan->failed_text - 1);
  }
  stop(plan);
  pthread_mutex_unlock(&plan->lock);
}

/* Moves a slice; whether all of it is in place. */
static bool carry(Plan* plan, const Slice* slice) {
  size_t done = 0;
  while (done < slice->size) {
    const ssize_t moved =
        plan->call(slice->file, slice->memory + done, slice->size - done, slice->offset + (int64_t)done, 0);
    if (moved <= 0) {
      fail(plan, slice, moved == 0 ? -1 : (moved == -1 ? errno : -(long long)moved), done);
      return false;
    }
    done += (size_t)moved;
  }
  return true;
}

typedef enum { TAKEN, NONE_NOW, NONE_EVER } Taken;

/* The next slice. Without `wait` it is NONE_NOW where one may still come. */
static Taken take(Plan* plan, bool wait, Slice* slice) {
  pthread_mutex_lock(&plan->lock);
  while (wait && plan->next == plan->count && !plan->sealed && !plan->stopped)
    pthread_cond_wait(&plan->work, &plan->lock);
  Taken taken = TAKEN;
  if (plan->stopped || (plan->next == plan->count && plan->sealed)) {
    taken = NONE_EVER;
  } else if (plan->next == plan->count) {
    taken = NONE_NOW;
  } else {
    *slice = plan->slices[plan->next++];
  }
  pthread_mutex_unlock(&plan->lock);
  return taken;
}

static void arrived(Plan* plan, const Slice* slice) {
  pthread_mutex_lock(&plan->lock);
  plan->left[slice->range] -= slice->size;
  if (plan->left[slice->range] == 0) advance(plan);
  pthread_mutex_unlock(&plan->lock);
}

static void run_slices(Plan* plan) {
  Slice slice;
  while (take(plan, true, &slice) == TAKEN && carry(plan, &slice)) arrived(plan, &slice);
}

/* --- carrying by the copy engine: read into pinned windows, copied from there while the next one is read
 * ------------------ */

enum { max_windows = 16 };

typedef struct {
  int (*copy)(uint64_t target, const void* source, size_t size, void* stream);
  int (*record)(void* event, void* stream);
  int (*synchronize)(void* event);
  void* stream;
  char* memory;
  size_t windows, begun, settled; /* copies that were begun, and of these, how many have ended */
  void* events[max_windows];
  Slice under_way[max_windows];
} Staging;

/* Waits for the oldest copy. */
static bool settle(Plan* plan, Staging* staging) {
  const size_t window = staging->settled % staging->windows;
  const int code = staging->synchronize(staging->events[window]);
  ++staging->settled;
  if (code != 0) {
    fail(plan, &staging->under_way[window], cuda_code + code, 0);
    return false;
  }
  arrived(plan, &staging->under_way[window]);
  return true;
}

/* Reads a slice, whose `file` is a descriptor, into the next window and begins its copy. */
static bool stage(Plan* plan, Staging* staging, const Slice* slice) {
  if (staging->begun - staging->settled == staging->windows && !settle(plan, staging)) return false;
  const size_t window = staging->begun % staging->windows;
  char* const memory = staging->memory + window * plan->slice_size;
  for (size_t done = 0; done < slice->size;) {
    const ssize_t count =
        pread((int)(intptr_t)slice->file, memory + done, slice->size - done, (off_t)(slice->offset + (int64_t)done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fail(plan, slice, count == 0 ? -1 : errno, done);
      return false;
    }
    done += (size_t)count;
  }
  int code = staging->copy((uint64_t)(uintptr_t)slice->memory, memory, slice->size, staging->stream);
  if (code == 0) code = staging->record(staging->events[window], staging->stream);
  if (code != 0) {
    fail(plan, slice, cuda_code + code, 0);
    return false;
  }
  staging->under_way[window] = *slice;
  ++staging->begun;
  return true;
}

static void run_staged_slices(Plan* plan, Staging* staging) {
  bool sound = true;
  while (sound) {
    Slice slice;
    /* A thread that has copies under way must tell of them before it sleeps: others may wait for these alone. */
    const Taken taken = take(plan, staging->begun == staging->settled, &slice);
    if (taken == TAKEN) {
      sound = stage(plan, staging, &slice);
    } else if (staging->begun == staging->settled) {
      break;
    } else {
      sound = settle(plan, staging);
    }
  }
}

/* --- the Python object
 * ------------------------------------------------------------------------------------------------ */

static PyObject* plan_new(PyTypeObject* type, PyObject* arguments, PyObject* names) {
  (void)names;
  unsigned long long call = 0, last_error = 0;
  Py_ssize_t slice_size = 0;
  if (!PyArg_ParseTuple(arguments, "KKn", &call, &last_error, &slice_size)) return NULL;
  if (slice_size <= 0) return PyErr_Format(PyExc_ValueError, "a plan wants a size of slices");
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Plan* const plan = (Plan*)allocate(type, 0);
  if (plan == NULL) return NULL;
  plan->call = (transfer_call)(uintptr_t)call;
  plan->last_error = (text_call)(uintptr_t)last_error;
  plan->slice_size = (size_t)slice_size;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&plan->lock, NULL);
  pthread_cond_init(&plan->work, NULL);
  pthread_cond_init(&plan->change, &attributes);
  pthread_condattr_destroy(&attributes);
  return (PyObject*)plan;
}

static void plan_dealloc(PyObject* self) {
  Plan* const plan = (Plan*)self;
  PyTypeObject* const type = Py_TYPE(self);
  free(plan->slices);
  free(plan->left);
  pthread_mutex_destroy(&plan->lock);
  pthread_cond_destroy(&plan->work);
  pthread_cond_destroy(&plan->change);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF((PyObject*)type);
}

/* Room for so many slices more and one range; the lock is held. */
static bool reserve(Plan* plan, size_t slices) {
  if (plan->count + slices > plan->room) {
    const size_t room = (plan->count + slices) * 2;
    Slice* const grown = realloc(plan->slices, room * sizeof *grown);
    if (grown == NULL) return false;
    plan->slices = grown;
    plan->room = room;
  }
  if (plan->ranges == plan->range_room) {
    const size_t room = plan->range_room * 2 + 64;
    size_t* const grown = realloc(plan->left, room * sizeof *grown);
    if (grown == NULL) return false;
    plan->left = grown;
    plan->range_room = room;
  }
  return true;
}

static PyObject* plan_add(PyObject* self, PyObject* arguments) {
  Plan* const plan = (Plan*)self;
  unsigned long long file = 0, memory = 0;
  long long offset = 0;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(arguments, "KLnK", &file, &offset, &size, &memory)) return NULL;
  if (size < 0 || offset < 0) return PyErr_Format(PyExc_ValueError, "a range has a negative size or offset");
  const size_t slices = ((size_t)size + plan->slice_size - 1) / plan->slice_size;
  pthread_mutex_lock(&plan->lock);
  if (!reserve(plan, slices)) {
    pthread_mutex_unlock(&plan->lock);
    return PyErr_NoMemory();
  }
  const size_t number = plan->ranges++;
  plan->left[number] = (size_t)size;
  for (size_t at = 0; at < (size_t)size; at += plan->slice_size) {
    const size_t rest = (size_t)size - at;
    plan->slices[plan->count++] =
        (Slice){(void*)(uintptr_t)file, (char*)(uintptr_t)memory + at,
                rest < plan->slice_size ? rest : plan->slice_size, offset + (int64_t)at, number};
  }
  if (size == 0) advance(plan);
  pthread_cond_broadcast(&plan->work);
  pthread_mutex_unlock(&plan->lock);
  return PyLong_FromSize_t(number);
}

static PyObject* plan_run(PyObject* self, PyObject* nothing) {
  (void)nothing;
  Py_BEGIN_ALLOW_THREADS;
  run_slices((Plan*)self);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

/* run_staged(copy, record, synchronize, stream, memory, events): as run(), by the copy engine; `memory` is pinned and
 * has a window of a slice's size for each event. The caller has made the device's context current. */
static PyObject* plan_run_staged(PyObject* self, PyObject* arguments) {
  unsigned long long copy = 0, record = 0, synchronize = 0, stream = 0, memory = 0;
  PyObject* events = NULL;
  if (!PyArg_ParseTuple(arguments, "KKKKKO", &copy, &record, &synchronize, &stream, &memory, &events)) return NULL;
  const Py_ssize_t count = PyTuple_Size(events);
  if (count < 1 || count > max_windows) return PyErr_Format(PyExc_ValueError, "1 to %d windows", (int)max_windows);
  Staging staging = {.copy = (int (*)(uint64_t, const void*, size_t, void*))(uintptr_t)copy,
                     .record = (int (*)(void*, void*))(uintptr_t)record,
                     .synchronize = (int (*)(void*))(uintptr_t)synchronize,
                     .stream = (void*)(uintptr_t)stream,
                     .memory = (char*)(uintptr_t)memory,
                     .windows = (size_t)count};
  for (Py_ssize_t window = 0; window < count; ++window) {
    staging.events[window] = (void*)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(events, window));
  }
  if (PyErr_Occurred() != NULL) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  run_staged_slices((Plan*)self, &staging);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

static PyObject* plan_seal(PyObject* self, PyObject* nothing) {
  (void)nothing;
  Plan* const plan = (Plan*)self;
  pthread_mutex_lock(&plan->lock);
  plan->sealed = true;
  pthread_cond_broadcast(&plan->work);
  pthread_mutex_unlock(&plan->lock);
  Py_RETURN_NONE;
}

static PyObject* plan_stop(PyObject* self, PyObject* nothing) {
  (void)nothing;
  Plan* const plan = (Plan*)self;
  pthread_mutex_lock(&plan->lock);
  stop(plan);
  pthread_mutex_unlock(&plan->lock);
  Py_RETURN_NONE;
}

/* Waits for 100 ms at most; whether the first ranges are there, or never will be. */
static bool wait_a_while(Plan* plan, size_t first) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 100000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    ++until.tv_sec;
  }
  int result = 0;
  pthread_mutex_lock(&plan->lock);
  while (plan->first_open < first && !plan->stopped && result == 0) {
    result = pthread_cond_timedwait(&plan->change, &plan->lock, &until);
  }
  const bool over = plan->first_open >= first || plan->stopped;
  pthread_mutex_unlock(&plan->lock);
  return over;
}

/* wait(n): true once the first n ranges are in place, false when that will not be. Signals are served meanwhile. */
static PyObject* plan_wait(PyObject* self, PyObject* argument) {
  Plan* const plan = (Plan*)self;
  const size_t first = PyLong_AsSize_t(argument);
  if (first == (size_t)-1 && PyErr_Occurred() != NULL) return NULL;
  bool over = false;
  while (!over) {
    Py_BEGIN_ALLOW_THREADS;
    over = wait_a_while(plan, first);
    Py_END_ALLOW_THREADS;
    if (!over && PyErr_CheckSignals() != 0) return NULL;
  }
  pthread_mutex_lock(&plan->lock);
  const bool there = plan->first_open >= first;
  pthread_mutex_unlock(&plan->lock);
  return PyBool_FromLong(there);
}

static PyObject* plan_done(PyObject* self, PyObject* nothing) {
  (void)nothing;
  Plan* const plan = (Plan*)self;
  pthread_mutex_lock(&plan->lock);
  const size_t done = plan->first_open;
  pthread_mutex_unlock(&plan->lock);
  return PyLong_FromSize_t(done);
}

/* What went wrong: (code, range, where in the file, text), or None. */
static PyObject* plan_failure(PyObject* self, PyObject* nothing) {
  (void)nothing;
  Plan* const plan = (Plan*)self;
  if (plan->failed_code == 0) Py_RETURN_NONE;
  PyObject* const text = PyUnicode_DecodeUTF8(plan->failed_text, (Py_ssize_t)strlen(plan->failed_text), "replace");
  return text == NULL ? NULL
                      : Py_BuildValue("LnLN", plan->failed_code, (Py_ssize_t)plan->failed_range,
                                      (long long)plan->failed_at, text);
}

static PyMethodDef plan_methods[] = {
    {"add", plan_add, METH_VARARGS, "add(file, offset, size, memory) -> number: one range more"},
    {"run", plan_run, METH_NOARGS, "carries slices until the plan is sealed and empty, or stopped"},
    {"run_staged", plan_run_staged, METH_VARARGS, "as run(), by pinned windows and the copy engine"},
    {"seal", plan_seal, METH_NOARGS, "no range comes any more"},
    {"stop", plan_stop, METH_NOARGS, "begins no slice any more"},
    {"wait", plan_wait, METH_O, "wait(n) -> bool: are the first n ranges in place?"},
    {"done", plan_done, METH_NOARGS, "how many of the first ranges are in place"},
    {"failure", plan_failure, METH_NOARGS, "(code, range, offset, text) of the first failure, or None"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot plan_slots[] = {{Py_tp_new, (void*)plan_new},
                                   {Py_tp_dealloc, (void*)plan_dealloc},
                                   {Py_tp_methods, (void*)plan_methods},
                                   {Py_tp_doc, (void*)"Plan(call, last_error, slice_size): ranges under way"},
                                   {0, NULL}};

static PyType_Spec plan_spec = {"sluice._native.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

/* --- one transfer ---------------------------------------------------------------------------------------------------
 */

/* transfer(call, file, memory, size, offset) -> the count, short at the end of the file; or the negated errno or code.
 */
static PyObject* transfer(PyObject* module, PyObject* arguments) {
  (void)module;
  unsigned long long call = 0, file = 0, memory = 0;
  Py_ssize_t size = 0;
  long long offset = 0;
  if (!PyArg_ParseTuple(arguments, "KKKnL", &call, &file, &memory, &size, &offset)) return NULL;
  const transfer_call function = (transfer_call)(uintptr_t)call;
  long long done = 0;
  Py_BEGIN_ALLOW_THREADS;
  while (done < size) {
    const ssize_t moved =
        function((void*)(uintptr_t)file, (char*)(uintptr_t)memory + done, (size_t)(size - done), offset + done, 0);
    if (moved < 0) {
      done = moved == -1 ? -(long long)errno : (long long)moved;
      break;
    }
    if (moved == 0) break;
    done += moved;
  }
  Py_END_ALLOW_THREADS;
  return PyLong_FromLongLong(done);
}

static PyMethodDef module_methods[] = {
    {"transfer", transfer, METH_VARARGS, "transfer(call, file, memory, size, offset) -> count, or a negated code"},
    {"parse_header", parse_header, METH_VARARGS, "parse_header(text, types, entry_type) -> (entries, metadata)"},
    {"fit", fit, METH_VARARGS, "fit(entries, tensors, types, devices, target_type, targets) -> entries that are left"},
    {"lie_apart", lie_apart, METH_O, "lie_apart(targets) -> bool: do no two of them share a byte?"},
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject* module) {
  PyObject* const type = PyType_FromSpec(&plan_spec);
  if (type == NULL) return -1;
  if (PyModule_AddObject(module, "Plan", type) != 0) {
    Py_DECREF(type);
    return -1;
  }
  return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void*)module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_native", "See native.c.", 0, module_methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { /* NOLINT(readability-identifier-naming): the name that Python looks for */
  return PyModuleDef_Init(&module_definition);
}
