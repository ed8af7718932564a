#include "tests/support/stand_in/controls.h"

#include "tests/support/stand_in/machine.h"

using stand_in::machine;

void stand_in_fail_call(const char* call, std::int64_t skip, int code) {
  machine().fail_call(call, skip, code);
}
void stand_in_set(const char* key, std::int64_t value) {
  machine().set(key, value);
}
std::int64_t stand_in_get(const char* key) {
  return machine().get(key);
}
