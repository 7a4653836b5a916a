# SPDX-License-Identifier: Apache-2.0
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../_version.py" pyquant_line REGEX "__version__")
string(REGEX REPLACE ".*\"(.*)\".*" "\\1" PACKAGE_VERSION "${pyquant_line}")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
