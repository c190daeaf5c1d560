// The Error that an action ends with, for tests of what is refused, and how.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

namespace tare {

template <class Action>
Error error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return internal_error("no error");
}

}  // namespace tare
