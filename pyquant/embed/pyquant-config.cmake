# SPDX-License-Identifier: Apache-2.0
# find_package(pyquant) defines the target pyquant::headers. pyquant.h includes Python.h, so a
# module also links Python::Module. The target has no library: pyquant_import() gets the
# functions at run time.
if(NOT TARGET pyquant::headers)
  add_library(pyquant::headers INTERFACE IMPORTED)
  set(pyquant_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include")
  if(NOT EXISTS "${pyquant_INCLUDE_DIR}/pq.h") # an editable install
    set(pyquant_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../csrc")
  endif()
  set_target_properties(pyquant::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${pyquant_INCLUDE_DIR}")
endif()
