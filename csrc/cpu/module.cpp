// The Python module _C. It has no contents: importing it loads the library, whose static initialisers register the operators.
#include <Python.h>

#include <exception>

#include "vectors/isa.h"

extern "C" PyMODINIT_FUNC PyInit__C() {
  try {
    reprocuda::cpu::selected_isa();  // a name that it does not know is refused now, and not within the first operator
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&module);
}
