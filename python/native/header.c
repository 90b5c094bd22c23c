/* SPDX-License-Identifier: Apache-2.0 */
/* The plain case of a header: no escapes, no unknown keys, whole numbers, every tensor sound. All else is _header.py's:
 * this accepts a part of what that accepts, with the same result, so what is a sound file is decided in one place. */
#include "header.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

enum { max_rank = 64, max_digits = 18 };

typedef struct {
  const char* at;
  const char* end;
} Text;

typedef struct {
  int64_t begin, end;
  size_t order;
  PyObject* entry;
} Row;

typedef struct {
  Row* rows;
  size_t count, room;
  PyObject* names; /* a set: the same name twice is no plain header */
  PyObject* metadata;
  PyObject* types;
  PyObject* entry_type;
  PyObject* new_tuple;
  PyObject *last_dtype, *last_end; /* of the tensor before: most are of its type, and begin where it ends */
  char last_text[16];
  int64_t last_end_number;
} Table;

typedef struct {
  PyObject* dtype;
  PyObject* shape; /* a tuple */
  uint64_t elements;
  int64_t begin, end;
  bool has_offsets;
} Description;

static void skip_space(Text* text) {
  while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\r' || *text->at == '\t'))
    ++text->at;
}

/* The next character that is no space, if it is this one. */
static bool take(Text* text, char wanted) {
  skip_space(text);
  if (text->at == text->end || *text->at != wanted) return false;
  ++text->at;
  return true;
}

/* A text without escapes; where it begins, and its length. */
static bool take_plain(Text* text, const char** begin, size_t* length) {
  if (!take(text, '"')) return false;
  *begin = text->at;
  while (text->at < text->end && *text->at != '"') {
    if (*text->at == '\\' || (unsigned char)*text->at < 0x20) return false;
    ++text->at;
  }
  if (text->at == text->end) return false;
  *length = (size_t)(text->at - *begin);
  ++text->at;
  return true;
}

static PyObject* take_text(Text* text) {
  const char* begin = NULL;
  size_t length = 0;
  return take_plain(text, &begin, &length) ? PyUnicode_DecodeUTF8(begin, (Py_ssize_t)length, NULL) : NULL;
}

static bool take_number(Text* text, int64_t* number) {
  skip_space(text);
  const char* const begin = text->at;
  int64_t value = 0;
  while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
    if (text->at - begin == max_digits) return false;
    value = value * 10 + (*text->at++ - '0');
  }
  const size_t digits = (size_t)(text->at - begin);
  *number = value;
  return digits > 0 && (digits == 1 || *begin != '0');
}

/* [1, 2, 3]: the shape, and how many elements it has. */
static bool take_shape(Text* text, Description* about) {
  int64_t extents[max_rank];
  Py_ssize_t rank = 0;
  if (about->shape != NULL || !take(text, '[')) return false;
  about->elements = 1;
  if (!take(text, ']')) {
    do {
      if (rank == max_rank || !take_number(text, &extents[rank])) return false;
      if (__builtin_mul_overflow(about->elements, (uint64_t)extents[rank], &about->elements)) return false;
      ++rank;
    } while (take(text, ','));
    if (!take(text, ']')) return false;
  }
  about->shape = PyTuple_New(rank);
  for (Py_ssize_t axis = 0; about->shape != NULL && axis < rank; ++axis) {
    PyObject* const extent = PyLong_FromLongLong(extents[axis]);
    if (extent == NULL || PyTuple_SetItem(about->shape, axis, extent) != 0) Py_CLEAR(about->shape);
  }
  return about->shape != NULL;
}

static bool take_offsets(Text* text, Description* about) {
  if (about->has_offsets) return false;
  about->has_offsets = true;
  return take(text, '[') && take_number(text, &about->begin) && take(text, ',') && take_number(text, &about->end) &&
         take(text, ']');
}

static bool is(const char* begin, size_t length, const char* word) {
  return length == strlen(word) && memcmp(begin, word, length) == 0;
}

static bool take_dtype(Text* text, Table* table, Description* about) {
  const char* begin = NULL;
  size_t length = 0;
  if (about->dtype != NULL || !take_plain(text, &begin, &length)) return false;
  if (table->last_dtype == NULL || length >= sizeof table->last_text || !is(begin, length, table->last_text)) {
    Py_XDECREF(table->last_dtype);
    table->last_dtype = PyUnicode_DecodeUTF8(begin, (Py_ssize_t)length, NULL);
    if (table->last_dtype == NULL) return false;
    table->last_text[0] = '\0';
    if (length < sizeof table->last_text) {
      memcpy(table->last_text, begin, length);
      table->last_text[length] = '\0';
    }
  }
  Py_INCREF(table->last_dtype);
  about->dtype = table->last_dtype;
  return true;
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, in any order. */
static bool take_description(Text* text, Table* table, Description* about) {
  if (!take(text, '{')) return false;
  do {
    const char* key = NULL;
    size_t length = 0;
    if (!take_plain(text, &key, &length) || !take(text, ':')) return false;
    if (is(key, length, "dtype")) {
      if (!take_dtype(text, table, about)) return false;
    } else if (is(key, length, "shape")) {
      if (!take_shape(text, about)) return false;
    } else if (!is(key, length, "data_offsets") || !take_offsets(text, about)) {
      return false;
    }
  } while (take(text, ','));
  return take(text, '}') && about->dtype != NULL && about->shape != NULL && about->has_offsets;
}

static bool fits(const Table* table, const Description* about) {
  PyObject* const told = PyDict_GetItemWithError(table->types, about->dtype);
  const unsigned long long element = told != NULL ? PyLong_AsUnsignedLongLong(told) : 0;
  uint64_t bits = 0;
  return element != 0 && element <= 64 && !__builtin_mul_overflow(about->elements, (uint64_t)element, &bits) &&
         about->begin <= about->end && (uint64_t)(about->end - about->begin) * 8 == bits;
}

static PyObject* begin_of(const Table* table, const Description* about) {
  if (table->last_end == NULL || table->last_end_number != about->begin) return PyLong_FromLongLong(about->begin);
  Py_INCREF(table->last_end);
  return table->last_end;
}

static bool append(Table* table, PyObject* name, const Description* about) {
  if (table->count == table->room) {
    const size_t room = table->room * 2 + 256;
    Row* const grown = realloc(table->rows, room * sizeof *grown);
    if (grown == NULL) return false;
    table->rows = grown;
    table->room = room;
  }
  PyObject* const begin = begin_of(table, about);
  PyObject* const end = PyLong_FromLongLong(about->end);
  PyObject* const entry = begin != NULL && end != NULL ? named_tuple(table->new_tuple, table->entry_type, name,
                                                                     about->dtype, about->shape, begin, end)
                                                       : NULL;
  Py_XDECREF(begin);
  Py_XDECREF(table->last_end);
  table->last_end = end;
  table->last_end_number = about->end;
  if (entry == NULL) return false;
  table->rows[table->count] = (Row){about->begin, about->end, table->count, entry};
  ++table->count;
  return PySet_Add(table->names, name) == 0;
}

static bool take_tensor(Text* text, Table* table, PyObject* name) {
  Description about = {0};
  const bool sound = take_description(text, table, &about) && fits(table, &about) && append(table, name, &about);
  Py_XDECREF(about.dtype);
  Py_XDECREF(about.shape);
  return sound;
}

static bool take_metadata(Text* text, Table* table) {
  if (table->metadata != NULL || !take(text, '{') || (table->metadata = PyDict_New()) == NULL) return false;
  if (take(text, '}')) return true;
  do {
    PyObject* const key = take_text(text);
    PyObject* const value = key != NULL && take(text, ':') ? take_text(text) : NULL;
    const bool stored = value != NULL && PyDict_SetItem(table->metadata, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    if (!stored) return false;
  } while (take(text, ','));
  return take(text, '}');
}

static bool take_header(Text* text, Table* table) {
  if (!take(text, '{')) return false;
  if (!take(text, '}')) {
    do {
      const char* begin = NULL;
      size_t length = 0;
      if (!take_plain(text, &begin, &length) || !take(text, ':')) return false;
      if (is(begin, length, "__metadata__")) {
        if (!take_metadata(text, table)) return false;
        continue;
      }
      PyObject* const name = PyUnicode_DecodeUTF8(begin, (Py_ssize_t)length, NULL);
      const bool sound = name != NULL && take_tensor(text, table, name);
      Py_XDECREF(name);
      if (!sound) return false;
    } while (take(text, ','));
    if (!take(text, '}')) return false;
  }
  skip_space(text);
  return text->at == text->end && (size_t)PySet_Size(table->names) == table->count;
}

static int compare(const void* one, const void* other) {
  const Row* const a = one;
  const Row* const b = other;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

/* The entries in the order of their data, if they cover it without holes and overlaps; else NULL. */
static PyObject* ordered(Table* table, int64_t data_size) {
  if (table->count > 1) qsort(table->rows, table->count, sizeof *table->rows, compare);
  int64_t at = 0;
  for (size_t row = 0; row < table->count; ++row) {
    if (table->rows[row].begin != at) return NULL;
    at = table->rows[row].end;
  }
  PyObject* const entries = at == data_size ? PyList_New((Py_ssize_t)table->count) : NULL;
  for (size_t row = 0; entries != NULL && row < table->count; ++row) {
    PyObject* const entry = table->rows[row].entry;
    table->rows[row].entry = NULL;
    PyList_SetItem(entries, (Py_ssize_t)row, entry);
  }
  return entries;
}

PyObject* parse_header(PyObject* module, PyObject* arguments) {
  (void)module;
  const char* begin = NULL;
  Py_ssize_t length = 0;
  long long data_size = 0;
  Table table = {0};
  if (!PyArg_ParseTuple(arguments, "y#LOO", &begin, &length, &data_size, &table.types, &table.entry_type)) return NULL;
  table.names = PySet_New(NULL);
  table.new_tuple = tuple_maker();
  if (table.names == NULL || table.new_tuple == NULL) {
    Py_XDECREF(table.names);
    Py_XDECREF(table.new_tuple);
    return NULL;
  }
  Text text = {begin, begin + length};
  PyObject* const entries = take_header(&text, &table) ? ordered(&table, data_size) : NULL;
  PyObject* result = NULL;
  if (entries != NULL) result = Py_BuildValue("NO", entries, table.metadata != NULL ? table.metadata : Py_None);
  for (size_t row = 0; row < table.count; ++row) Py_XDECREF(table.rows[row].entry);
  free(table.rows);
  Py_DECREF(table.names);
  Py_DECREF(table.new_tuple);
  Py_XDECREF(table.last_dtype);
  Py_XDECREF(table.last_end);
  Py_XDECREF(table.metadata);
  if (result == NULL) {
    PyErr_Clear();
    Py_RETURN_NONE;
  }
  return result;
}
